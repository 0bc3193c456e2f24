package vectors

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Key identifies the texts of a file, and the model that computed their vectors.
type Key [16]byte

// Space is where vectors come from. Vectors of different spaces cannot be compared.
type Space struct {
	Model      string
	Dimensions int // that are requested; 0: the model's default
}

// textVersion changes with what Texts returns.
const textVersion = 1

func (s Space) String() string { return fmt.Sprintf("%d/%d/%s", textVersion, s.Dimensions, s.Model) }

// KeyOf returns the key of a file. extracts is the version of what is extracted from it.
func (s Space) KeyOf(extracts int, path, blob string) Key {
	sum := sha256.Sum256(fmt.Appendf(nil, "vectors/%s/%d/%s/%s", s, extracts, blob, path))
	return Key(sum[:])
}

// fileName returns the name of the file with the vectors of a space.
func (s Space) fileName() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:8]) + ".vectors"
}

// Entry has the compact vectors of a file.
type Entry struct {
	Key   Key
	Parts [][]byte
}

// File has the vectors of one space for the files of a repository, on this host's disk. Processes may
// share it. It has a head with the length of the vectors, and then rows of the same size: key, number of
// the vector among those of the key and how many there are, checksum, compact vector. Rows are only
// appended, so that what is found stays where it is. File is safe for concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	file *os.File // closed by the garbage collector, once no Set uses it
	gen  int      // changes with the rows
	dims int      // 0: the file has no vectors yet
	rows int      // that are known
	at   map[Key]place
}

// place are the rows of a key.
type place struct {
	first uint32
	parts uint8
}

const (
	magic     = "RGPTVEC1"
	headBytes = int64(len(magic) + 4)
	// rowHead is the size of a row without its compact vector.
	rowHead = len(Key{}) + 2 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDimensions is the error for vectors of another length than those that are stored.
var ErrDimensions = errors.New("the embeddings have another length than before")

// Open opens the vectors of a space in a directory, which is created if necessary.
func Open(dir string, space Space) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of embeddings: %w", err)
	}
	f := &File{path: filepath.Join(dir, space.fileName())}
	return f, f.Refresh()
}

// Refresh reads what other processes have added.
func (f *File) Refresh() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return fmt.Errorf("read the embeddings on disk: %w", err)
	}
	return nil
}

func (f *File) rowBytes() int { return rowHead + scaleBytes + f.dims }

// refresh opens the file if it is another one than before, and reads new rows.
func (f *File) refresh() error {
	now, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		if f.file != nil || f.at == nil {
			f.reset(nil)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if f.file != nil {
		mine, err := f.file.Stat()
		if err != nil {
			return err
		}
		if !os.SameFile(mine, now) {
			f.reset(nil)
		}
	}
	if f.file == nil {
		file, err := os.OpenFile(f.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		f.reset(file)
		if f.dims, err = readHead(file); err != nil {
			return err
		}
	}
	return f.readRows()
}

func (f *File) reset(file *os.File) {
	f.file, f.dims, f.rows, f.at = file, 0, 0, map[Key]place{}
	f.gen++
}

// readHead returns the length of the vectors; 0 if a process was killed before it wrote the head.
func readHead(file *os.File) (int, error) {
	var head [headBytes]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		return 0, err
	}
	dims := binary.LittleEndian.Uint32(head[len(magic):])
	if string(head[:len(magic)]) != magic || dims == 0 || dims > MaxDimensions {
		return 0, nil
	}
	return int(dims), nil
}

// readRows reads the rows that are not known yet, up to the first that is not valid.
func (f *File) readRows() error {
	if f.dims == 0 {
		return nil
	}
	size := f.rowBytes()
	start := headBytes + int64(f.rows)*int64(size)
	in := bufio.NewReaderSize(io.NewSectionReader(f.file, start, 1<<62), max(1<<20, size))
	var parts int // of the key so far
	for {
		row, err := in.Peek(size)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !valid(row) {
			return nil
		}
		part, of := row[len(Key{})], row[len(Key{})+1]
		if part == 0 {
			parts = 0
		}
		if parts++; int(part)+1 == int(of) && parts == int(of) {
			f.at[Key(row[:len(Key{})])] = place{uint32(f.rows + 1 - parts), of}
		}
		f.rows++
		f.gen++
		if _, err := in.Discard(size); err != nil {
			return err
		}
	}
}

// checksum covers all of a row but itself.
func checksum(row []byte) uint32 {
	sum := crc32.Checksum(row[:rowHead-4], castagnoli)
	return crc32.Update(sum, castagnoli, row[rowHead:])
}

func valid(row []byte) bool {
	return binary.LittleEndian.Uint32(row[rowHead-4:]) == checksum(row) && row[len(Key{})] < row[len(Key{})+1]
}

// Dimensions returns the length of the vectors; 0 if there are none.
func (f *File) Dimensions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dims
}

// Generation returns a number that changes whenever Select may return something else.
func (f *File) Generation() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gen
}

// Has says whether the vectors of a key are stored.
func (f *File) Has(k Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.at[k]
	return ok
}

// Add stores vectors, all of which have the same length. If those that are stored have another one, the
// error is ErrDimensions.
func (f *File) Add(list []Entry) error {
	if len(list) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.add(list); err != nil {
		return fmt.Errorf("write embeddings to the disk: %w", err)
	}
	return nil
}

func (f *File) add(list []Entry) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.refresh(); err != nil {
		return err
	}
	dims := len(list[0].Parts[0]) - scaleBytes
	if f.dims == 0 {
		if err := f.create(dims); err != nil {
			return err
		}
	}
	var rows []byte
	for _, e := range list {
		for i, p := range e.Parts {
			if len(p)-scaleBytes != f.dims {
				return fmt.Errorf("%w: %d, not %d", ErrDimensions, len(p)-scaleBytes, f.dims)
			}
			at := len(rows)
			rows = append(rows, e.Key[:]...)
			rows = append(rows, byte(i), byte(len(e.Parts)), 0, 0, 0, 0)
			rows = append(rows, p...)
			binary.LittleEndian.PutUint32(rows[at+rowHead-4:], checksum(rows[at:]))
		}
	}
	// What follows the valid rows is of a process that was killed.
	if _, err := f.file.WriteAt(rows, headBytes+int64(f.rows)*int64(f.rowBytes())); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	return f.readRows()
}

// create makes a file without vectors.
func (f *File) create(dims int) error {
	file, err := os.CreateTemp(filepath.Dir(f.path), ".new-*")
	if err != nil {
		return err
	}
	if err := writeHead(file, dims); err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return err
	}
	if err := os.Rename(file.Name(), f.path); err != nil {
		return err
	}
	f.reset(file)
	f.dims = dims
	return nil
}

func writeHead(file *os.File, dims int) error {
	_, err := file.Write(binary.LittleEndian.AppendUint32([]byte(magic), uint32(dims)))
	return err
}

// lock waits until no other process changes the file.
func (f *File) lock() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(f.path), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil // which ends the lock
}

// minWaste is the number of rows that nothing uses from which the file is written again without them.
const minWaste = 4096

// keptSpaces is how long the file of another space stays after its last change.
const keptSpaces = 24 * time.Hour

// Prune removes vectors that are not among the given ones, if they are more than half of the file, and
// the files of other spaces that were not changed for long.
func (f *File) Prune(keys []Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropOthers()
	keep := 0
	for _, k := range keys {
		keep += int(f.at[k].parts)
	}
	if f.rows-keep < max(keep, minWaste) {
		return nil
	}
	if err := f.rewrite(keys); err != nil {
		return fmt.Errorf("remove unused embeddings: %w", err)
	}
	return nil
}

func (f *File) dropOthers() {
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return
	}
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(f.path), e.Name())
		if info, err := e.Info(); err == nil && filepath.Ext(name) == ".vectors" && name != f.path && time.Since(info.ModTime()) > keptSpaces {
			_ = os.Remove(name)
		}
	}
}

func (f *File) rewrite(keys []Key) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.refresh(); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(f.path), ".new-*")
	if err != nil {
		return err
	}
	err = f.copyTo(file, keys)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(file.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	_ = file.Close()
	if err != nil {
		return err
	}
	return f.refresh()
}

func (f *File) copyTo(file *os.File, keys []Key) error {
	if err := writeHead(file, f.dims); err != nil {
		return err
	}
	places := make([]place, 0, len(keys))
	for _, k := range keys {
		if p, ok := f.at[k]; ok {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b place) int { return int(a.first) - int(b.first) })
	out := bufio.NewWriterSize(file, 1<<20)
	size := int64(f.rowBytes())
	for _, p := range slices.Compact(places) {
		rows := io.NewSectionReader(f.file, headBytes+int64(p.first)*size, int64(p.parts)*size)
		if _, err := io.Copy(out, rows); err != nil {
			return err
		}
	}
	return out.Flush()
}
