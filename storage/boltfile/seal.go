package boltfile

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sealSize = 4

// Seal appends to body the CRC-32C over bucket, key and body: a value that
// Unseal accepts in that place and in no other.
func Seal(bucket, key, body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, checksum(bucket, key, body))
}

// Unseal checks a value that Seal made and returns its body, which is part of
// value and never nil. It reports false if the value is not the one that was
// sealed there.
func Unseal(bucket, key, value []byte) (body []byte, ok bool) {
	n := len(value) - sealSize
	if n < 0 {
		return nil, false
	}
	body = value[:n:n]
	return body, binary.BigEndian.Uint32(value[n:]) == checksum(bucket, key, body)
}

func checksum(bucket, key, body []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, body)
}
