package index

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// Key identifies what is extracted from a blob: the same content as a file of another language, by
// other processors or within another limit of size gives something else.
type Key [16]byte

// recordVersion changes with the form of records, or with how terms are counted.
const recordVersion = 1

// KeyOf returns the key of a blob under a path.
func KeyOf(blob, path string, maxFileSize int64) Key {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%d/%s/%s", recordVersion, extract.Version, maxFileSize, extract.Family(path), blob))
	return Key(sum[:])
}

// Record is what is kept of a blob.
type Record struct {
	// Reason says why the file is not indexed; the other fields are then empty.
	Reason  extract.Reason
	Extract extract.Extract // without Prose
	Counts  Counts          // without the field of paths
	// packed is the extract as it is stored, if it was read.
	packed []byte
}

// NewRecord extracts a blob. Content nil means that it is too large.
func NewRecord(path string, content []byte) Record {
	if content == nil {
		return Record{Reason: extract.ReasonSize}
	}
	if ok, why := extract.WantedContent(path, content); !ok {
		return Record{Reason: why}
	}
	x := extract.File(path, content)
	r := Record{Counts: countContent(content, &x)}
	x.Prose = nil
	r.Extract = x
	return r
}

// maxRecord limits what a stored record may grow to when it is decompressed.
const maxRecord = 64 << 20

var coders = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	// The options are constant and valid.
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxRecord), zstd.WithDecoderConcurrency(2))
	return e, d
})

func compress(b []byte) []byte {
	e, _ := coders()
	return e.EncodeAll(b, make([]byte, 0, len(b)/2+64))
}

func decompress(b []byte) ([]byte, error) {
	_, d := coders()
	out, err := d.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", ErrCorrupt)
	}
	return out, nil
}

// pack returns the extract as it is stored.
func (r *Record) pack() []byte {
	if r.packed == nil {
		r.packed = compress(encodeExtract(r.Extract))
	}
	return r.packed
}

// Encode returns the record as it is stored in the database.
func (r *Record) Encode() []byte {
	var w writer
	w.text(string(r.Reason))
	if r.Reason != extract.ReasonNone {
		return w.b
	}
	packed := r.pack()
	w.uint(len(packed))
	w.b = append(w.b, packed...)
	w.b = append(w.b, compress(encodeCounts(r.Counts))...)
	return w.b
}

// DecodeRecord returns a stored record.
func DecodeRecord(b []byte) (Record, error) {
	in := reader{b: b}
	r := Record{Reason: extract.Reason(in.text())}
	if r.Reason != extract.ReasonNone {
		if in.bad || len(in.b) > 0 {
			return Record{}, corrupt("a record")
		}
		return r, nil
	}
	r.packed = in.bytes(in.count())
	if in.bad {
		return Record{}, corrupt("a record")
	}
	counts, err := decompress(in.b)
	if err != nil {
		return Record{}, err
	}
	if r.Counts, err = decodeCounts(counts); err != nil {
		return Record{}, err
	}
	x, err := decompress(r.packed)
	if err != nil {
		return Record{}, err
	}
	r.Extract, err = decodeExtract(x)
	return r, err
}

// meta is what a snapshot needs of a blob to find the files that it imports.
type meta struct {
	lang, pkg string
	imports   []string
}

// blobInfo is what stays in memory of a blob of a segment.
type blobInfo struct {
	key     Key
	skipped bool // not indexed
	lang    uint16
	length  [rank.Fields]uint32
	offset  int64 // of the extract
	size    int   // of the extract
}

func (w *writer) fixed32(n uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, n) }
func (w *writer) fixed64(n int64)  { w.b = binary.LittleEndian.AppendUint64(w.b, uint64(n)) }
