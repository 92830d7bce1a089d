package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"operon/storage/boltfile"
)

func TestSealHoldsInItsPlaceOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesOf := rapid.SliceOfN(rapid.Byte(), 0, 40)
		bucket, key, body := bytesOf.Draw(t, "bucket"), bytesOf.Draw(t, "key"), bytesOf.Draw(t, "body")
		sealed := boltfile.Seal(bucket, key, bytes.Clone(body))
		got, ok := boltfile.Unseal(bucket, key, sealed)
		if !ok || !bytes.Equal(got, body) || got == nil {
			t.Fatalf("got %x, %v", got, ok)
		}
		if _, ok := boltfile.Unseal(bucket, append([]byte{1}, key...), sealed); ok {
			t.Fatal("holds under another key")
		}
		at := rapid.IntRange(0, len(sealed)-1).Draw(t, "at")
		sealed[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, ok := boltfile.Unseal(bucket, key, sealed); ok {
			t.Fatal("holds with a bit flipped")
		}
	})
	for n := range 4 {
		if _, ok := boltfile.Unseal(nil, nil, make([]byte, n)); ok {
			t.Errorf("%d bytes hold", n)
		}
	}
}

func TestFieldsRoundTripAndEndAnywhere(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 0, 0, 5, time.UTC)
	body := boltfile.AppendBytes(nil, "text")
	body = boltfile.AppendTime(body, at)
	body = boltfile.AppendTime(body, time.Time{})
	body = binary.BigEndian.AppendUint32(body, 7)
	body = binary.AppendUvarint(body, 1<<40)
	body = binary.AppendVarint(body, -3)
	read := func(f *boltfile.Fields) (string, time.Time, time.Time, uint32, uint64, int64) {
		return f.String(), f.Time(), f.Time(), f.Uint32(), f.Uvarint(), f.Varint()
	}
	f := boltfile.NewFields(body)
	s, a, z, n, u, i := read(f)
	if f.Err() != nil || s != "text" || !a.Equal(at) || !z.IsZero() || n != 7 || u != 1<<40 || i != -3 {
		t.Errorf("%q %v %v %d %d %d (%v)", s, a, z, n, u, i, f.Err())
	}
	for cut := range body {
		f := boltfile.NewFields(body[:cut])
		read(f)
		if f.Err() == nil {
			t.Errorf("nothing wrong with %d bytes of %d", cut, len(body))
		}
	}
	f = boltfile.NewFields(append(body, 0))
	read(f)
	if f.Err() == nil {
		t.Error("nothing wrong with a byte too many")
	}
}

func FuzzFields(f *testing.F) {
	f.Add([]byte{1, 'a', 2, 3})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := boltfile.NewFields(body)
		for i := 0; r.More(); i++ {
			switch i % 5 {
			case 0:
				r.Bytes()
			case 1:
				r.Uvarint()
			case 2:
				r.Time()
			case 3:
				r.Varint()
			default:
				r.Byte()
			}
		}
	})
}
