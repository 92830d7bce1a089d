package storage

import (
	"bytes"
	"encoding/binary"

	"operon/spec/value"
	"operon/storage/boltfile"
)

// Kinds of stored items.
const (
	itemJSON = 1 // JSON text
	itemFile = 2 // a file, its content in a blob or, by reference, elsewhere
	itemHole = 3 // a hole, its reason as a JSON string
	itemBlob = 4 // JSON text in a blob
)

const (
	fileExec = 1
	fileRef  = 2
)

// item is a value as it is stored: its text, or where its bytes lie.
type item struct {
	kind   byte
	text   []byte         // itemJSON, itemHole
	file   value.FileInfo // itemFile, without Path unless Ref
	digest value.Digest   // itemBlob: of the text
	size   int64          // itemBlob: bytes of text
}

// blob is the blob that holds the item's bytes, if one does.
func (it *item) blob() (id blobID, size int64, ok bool) {
	switch {
	case it.kind == itemBlob:
		return blobID{digest: it.digest}, it.size, true
	case it.kind == itemFile && !it.file.Ref:
		return blobID{digest: it.file.SHA256, exec: it.file.Exec}, it.file.Size, true
	}
	return blobID{}, 0, false
}

func appendItem(b []byte, it *item) []byte {
	b = append(b, it.kind)
	switch it.kind {
	case itemBlob:
		b = binary.AppendUvarint(b, uint64(it.size))
		return append(b, it.digest[:]...)
	case itemFile:
		return appendFile(b, &it.file)
	}
	return boltfile.AppendBytes(b, it.text)
}

func appendFile(b []byte, f *value.FileInfo) []byte {
	var flags byte
	if f.Exec {
		flags |= fileExec
	}
	if f.Ref {
		flags |= fileRef
	}
	b = append(b, flags)
	b = boltfile.AppendBytes(b, f.Name)
	b = binary.AppendUvarint(b, uint64(f.Size))
	b = append(b, f.SHA256[:]...)
	if f.Ref {
		b = boltfile.AppendBytes(b, f.Path)
	}
	return b
}

// takeItem reads one item. Its text is part of what f reads from.
func takeItem(f *boltfile.Fields) (it item) {
	it.kind = f.Byte()
	switch it.kind {
	case itemJSON, itemHole:
		it.text = f.Bytes()
	case itemBlob:
		it.size = takeSize(f)
		copy(it.digest[:], f.Take(len(it.digest)))
	case itemFile:
		takeFile(f, &it.file)
	default:
		f.Bad()
	}
	return it
}

func takeFile(f *boltfile.Fields, file *value.FileInfo) {
	flags := f.Byte()
	if flags&^(fileExec|fileRef) != 0 {
		f.Bad()
	}
	file.Exec, file.Ref = flags&fileExec != 0, flags&fileRef != 0
	file.Name = f.String()
	file.Size = takeSize(f)
	copy(file.SHA256[:], f.Take(len(file.SHA256)))
	if file.Ref {
		file.Path = f.String()
	}
}

func takeSize(f *boltfile.Fields) int64 {
	n := f.Uvarint()
	if n > 1<<63-1 {
		f.Bad()
		return 0
	}
	return int64(n)
}

// chunkLimit is the most bytes of a chunk with more than one item. Larger ones
// save little, and cost more to check when one item of them is read.
const chunkLimit = 32 << 10

// chunk is some neighbouring items of a list: their number (4 bytes), where
// each of them ends (4 bytes each), and the items.
type chunk struct {
	last uint32 // index of the last item
	body []byte
}

// chunkView is a chunk taken apart.
type chunkView struct {
	first, last uint32
	ends        []byte
	data        []byte
}

func decodeChunk(body []byte, last uint32) (v chunkView, ok bool) {
	if len(body) < 4 {
		return v, false
	}
	n := binary.BigEndian.Uint32(body)
	body = body[4:]
	if n == 0 || uint64(n) > uint64(len(body)/4) || uint64(n) > uint64(last)+1 {
		return v, false
	}
	v = chunkView{first: last - (n - 1), last: last, ends: body[:4*n], data: body[4*n:]}
	return v, uint64(binary.BigEndian.Uint32(v.ends[4*(n-1):])) == uint64(len(v.data))
}

// item reads the item of an index, which must lie in the chunk.
func (v *chunkView) item(i uint32) (item, bool) {
	n := i - v.first
	from := uint32(0)
	if n > 0 {
		from = binary.BigEndian.Uint32(v.ends[4*(n-1):])
	}
	to := binary.BigEndian.Uint32(v.ends[4*n:])
	if from > to || uint64(to) > uint64(len(v.data)) {
		return item{}, false
	}
	f := boltfile.NewFields(v.data[from:to])
	it := takeItem(f)
	return it, f.Err() == nil
}

// packer packs items into chunks.
type packer struct {
	chunks []chunk
	data   []byte   // items that are in no chunk yet
	ends   []uint32 // where each of them ends
	next   uint32   // index of the next item
}

func (p *packer) add(it *item) {
	before := len(p.data)
	p.data = appendItem(p.data, it)
	if n := len(p.ends); n > 0 && 4+4*(n+1)+len(p.data) > chunkLimit {
		rest := bytes.Clone(p.data[before:])
		p.data = p.data[:before]
		p.cut()
		p.data = append(p.data, rest...)
	}
	p.ends = append(p.ends, uint32(len(p.data)))
	p.next++
}

// cut makes a chunk of the items that are in none yet.
func (p *packer) cut() {
	body := make([]byte, 0, 4+4*len(p.ends)+len(p.data))
	body = binary.BigEndian.AppendUint32(body, uint32(len(p.ends)))
	for _, end := range p.ends {
		body = binary.BigEndian.AppendUint32(body, end)
	}
	body = append(body, p.data...)
	p.chunks = append(p.chunks, chunk{last: p.next - 1, body: body})
	p.data, p.ends = p.data[:0], p.ends[:0]
}
