package index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/dirlock"
)

const (
	// maxSegments is the number of segments from which small ones are merged.
	maxSegments = 8
	// keptSegments are the largest ones, which such a merge leaves alone.
	keptSegments = 3
	// keptTrees is the number of trees whose blobs are kept by a merge.
	keptTrees = 16
	// lockPoll is how often a process looks whether another one has finished its change.
	lockPoll = 20 * time.Millisecond
	// DefaultBuildMemory is the memory for the records of a segment under construction.
	DefaultBuildMemory = 128 << 20
)

// Dir is the index of one repository, a directory that processes of this host may share. It is safe
// for concurrent use.
type Dir struct {
	path        string
	inUse       *dirlock.Lock
	buildMemory int

	mu       sync.Mutex // guards what follows; held while the index changes
	segments []*segment
	at       map[Key]blobRef
	last     *Snapshot
}

// manifest lists the segments of an index.
type manifest struct {
	Next     int      `json:"next"` // number of the next segment
	Segments []string `json:"segments"`
}

// nameBytes is the length of the part of a digest that names a directory.
const nameBytes = 10

// Name returns the name of a repository's directory.
func Name(repo string) string {
	sum := sha256.Sum256([]byte(repo))
	return hex.EncodeToString(sum[:nameBytes])
}

// Open opens the index of a repository below a root, and creates it if necessary. The caller closes it.
func Open(root, repo string) (*Dir, error) {
	path := filepath.Join(root, Name(repo))
	for range 3 {
		if err := os.MkdirAll(filepath.Join(path, "trees"), 0o700); err != nil {
			return nil, fmt.Errorf("create the index of a repository: %w", err)
		}
		lock, err := dirlock.Use(path)
		if errors.Is(err, fs.ErrNotExist) { // just pruned
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the index of a repository: %w", err)
		}
		d := &Dir{path: path, inUse: lock, buildMemory: DefaultBuildMemory, at: map[Key]blobRef{}}
		d.touch()
		d.label(repo)
		return d, nil
	}
	return nil, fmt.Errorf("open the index of a repository: its directory was removed again and again")
}

// Close ends the use of the index. Snapshots stay valid.
func (d *Dir) Close() { d.inUse.Release() }

// touch records that the index is used, for Prune.
func (d *Dir) touch() {
	now := time.Now()
	_ = os.Chtimes(d.path, now, now)
}

// labelFile has the address of the repository, for people.
const labelFile = "repository"

// label stores the address of the repository. The index works without it.
func (d *Dir) label(repo string) {
	path := filepath.Join(d.path, labelFile)
	if content, err := os.ReadFile(path); err != nil || string(content) != repo {
		_ = replaceFile(path, []byte(repo))
	}
}

// exclusive waits until no other process changes the index.
func (d *Dir) exclusive(ctx context.Context) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the index of a repository: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = unix.Flock(int(file.Fd()), unix.LOCK_UN); _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock the index of a repository: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another process to change the index: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// load opens the segments that the manifest lists. What is corrupt is removed, to be computed again.
func (d *Dir) load() (manifest, error) {
	var m manifest
	content, err := os.ReadFile(filepath.Join(d.path, "manifest.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return m, fmt.Errorf("read the list of the index's parts: %w", err)
	default:
		if json.Unmarshal(content, &m) != nil {
			m = manifest{}
		}
	}
	var open []*segment
	names := m.Segments
	m.Segments = nil
	for _, name := range names {
		if strings.ContainsRune(name, filepath.Separator) {
			continue
		}
		s := d.opened(name)
		if s == nil {
			if s, err = openSegment(d.path, name); err != nil {
				if errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return m, err
			}
		}
		open, m.Segments = append(open, s), append(m.Segments, name)
	}
	d.use(open)
	return m, nil
}

func (d *Dir) opened(name string) *segment {
	for _, s := range d.segments {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (d *Dir) use(segments []*segment) {
	if slices.Equal(segments, d.segments) {
		return
	}
	d.segments, d.at = segments, map[Key]blobRef{}
	for i, s := range segments {
		for j := range s.blobs {
			d.at[s.blobs[j].key] = blobRef{int32(i), int32(j)}
		}
	}
}

// save publishes the segments and removes files that are not part of the index any more, such as those
// of a process that was killed.
func (d *Dir) save(m manifest) error {
	b, err := json.Marshal(m)
	if err == nil {
		err = replaceFile(filepath.Join(d.path, "manifest.json"), b)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("read the index of a repository: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == "manifest.json" || e.Name() == "lock" || e.Name() == labelFile || slices.Contains(m.Segments, e.Name()) {
			continue
		}
		_ = os.Remove(filepath.Join(d.path, e.Name()))
	}
	return nil
}

// Fetch returns the records of blobs that the index lacks: it calls add for each index in missing, in
// any order but not concurrently.
type Fetch func(missing []int, add func(i int, r *Record) error) error

// Update makes a snapshot of a tree, whose files are sorted by path, and fetches the records that the
// index lacks. It can be interrupted at any time.
func (d *Dir) Update(ctx context.Context, tree string, files []File, fetch Fetch) (*Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.touch()
	if d.last != nil && d.last.Tree == tree {
		return d.last, nil
	}
	release, err := d.exclusive(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := d.load()
	if err != nil {
		return nil, err
	}
	if err := d.fill(ctx, &m, files, fetch); err != nil {
		return nil, err
	}
	if len(m.Segments) > maxSegments {
		if err := d.compact(&m, files); err != nil {
			return nil, err
		}
	}
	s := newSnapshot(tree, files, d.segments, d.at)
	if !d.linked(s) {
		if err := s.link(d.before()); err != nil {
			return nil, err
		}
		if err := writeTree(d.treePath(tree), s, files); err != nil {
			return nil, err
		}
		d.dropTrees()
	}
	d.last = s
	return s, nil
}

func (d *Dir) treePath(tree string) string { return filepath.Join(d.path, "trees", Name(tree)) }

// linked takes what documents import from the tree's file.
func (d *Dir) linked(s *Snapshot) bool {
	tree, _, imports, err := readTree(d.treePath(s.Tree))
	if err != nil || tree != s.Tree || len(imports.starts) != len(s.paths)+1 {
		return false
	}
	s.imports = imports
	s.importedBy = imports.reversed(len(s.paths))
	now := time.Now()
	_ = os.Chtimes(d.treePath(s.Tree), now, now)
	return true
}

// before returns a snapshot of a tree that is probably almost the same, or nil.
func (d *Dir) before() *Snapshot {
	if d.last != nil {
		// Its segments may have been merged since, which does not matter: they are still open.
		return d.last
	}
	trees := d.trees()
	if len(trees) == 0 {
		return nil
	}
	tree, files, imports, err := readTree(trees[0])
	if err != nil {
		return nil
	}
	s := newSnapshot(tree, files, d.segments, d.at)
	if len(imports.starts) != len(s.paths)+1 {
		return nil
	}
	s.imports = imports
	return s
}

// trees returns the stored trees, the one that was used last first.
func (d *Dir) trees() []string {
	entries, err := os.ReadDir(filepath.Join(d.path, "trees"))
	if err != nil {
		return nil
	}
	type stored struct {
		path string
		used time.Time
	}
	var list []stored
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, stored{filepath.Join(d.path, "trees", e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b stored) int { return b.used.Compare(a.used) })
	paths := make([]string, len(list))
	for i, s := range list {
		paths[i] = s.path
	}
	return paths
}

func (d *Dir) dropTrees() {
	trees := d.trees()
	for _, path := range trees[min(len(trees), keptTrees):] {
		_ = os.Remove(path)
	}
}

// fill adds what the index lacks, in one or more segments, each of which is published at once.
func (d *Dir) fill(ctx context.Context, m *manifest, files []File, fetch Fetch) error {
	var missing []int
	seen := map[Key]bool{}
	for i, f := range files {
		if _, ok := d.at[f.Key]; !ok && !seen[f.Key] {
			seen[f.Key] = true
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	b := newBuilder()
	flush := func() error {
		if len(b.blobs) == 0 {
			return nil
		}
		name := fmt.Sprintf("%08d.segment", m.Next)
		if err := b.write(d.path, name); err != nil {
			return err
		}
		s, err := openSegment(d.path, name)
		if err != nil {
			return err
		}
		m.Next++
		m.Segments = append(m.Segments, name)
		d.use(append(slices.Clone(d.segments), s))
		b = newBuilder()
		return d.save(*m)
	}
	err := fetch(missing, func(i int, r *Record) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("index files: %w", context.Cause(ctx))
		}
		b.add(files[i].Key, r)
		if b.size >= d.buildMemory {
			return flush()
		}
		return nil
	})
	// What was read before an error is kept, so that the next try continues.
	return errors.Join(err, flush())
}

// compact merges small segments, without the blobs that no recent tree has.
func (d *Dir) compact(m *manifest, files []File) error {
	place := map[Key]int{}
	for i, f := range files {
		if _, ok := place[f.Key]; !ok {
			place[f.Key] = i
		}
	}
	trees := d.trees()
	for _, path := range trees[:min(len(trees), keptTrees)] {
		if _, others, _, err := readTree(path); err == nil {
			for _, f := range others {
				if _, ok := place[f.Key]; !ok {
					place[f.Key] = len(files)
				}
			}
		}
	}
	small := slices.Clone(d.segments)
	slices.SortStableFunc(small, func(a, b *segment) int { return int(b.size>>10) - int(a.size>>10) })
	keep := slices.Clone(small[:min(keptSegments, len(small))])
	// A large segment of which little is in use is merged as well, which removes the rest.
	keep = slices.DeleteFunc(keep, func(s *segment) bool {
		used := 0
		for i := range s.blobs {
			if _, ok := place[s.blobs[i].key]; ok {
				used++
			}
		}
		return 2*used < len(s.blobs)
	})
	small = slices.DeleteFunc(small, func(s *segment) bool { return slices.Contains(keep, s) })
	name := fmt.Sprintf("%08d.segment", m.Next)
	if err := merge(d.path, name, small, func(k Key) (int, bool) { at, ok := place[k]; return at, ok }); err != nil {
		return err
	}
	s, err := openSegment(d.path, name)
	if err != nil {
		return err
	}
	m.Next++
	segments := slices.Concat(keep, []*segment{s})
	m.Segments = nil
	for _, s := range segments {
		m.Segments = append(m.Segments, s.name)
	}
	d.use(segments)
	return d.save(*m)
}

// Reset removes all that the index has, after an error that matches ErrCorrupt.
func (d *Dir) Reset(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	release, err := d.exclusive(ctx)
	if err != nil {
		return err
	}
	defer release()
	d.last = nil
	d.use(nil)
	for _, path := range d.trees() {
		_ = os.Remove(path)
	}
	return d.save(manifest{})
}

// Size returns the bytes that the index takes on disk.
func (d *Dir) Size() int64 { return sizeOf(d.path) }

// Size returns the bytes that the index of a repository below a root takes on disk.
func Size(root, repo string) int64 { return sizeOf(filepath.Join(root, Name(repo))) }

func sizeOf(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// Prune removes the indexes that were not used for the longest time, until those that remain take at
// most a number of bytes. It skips those in use, and returns how many bytes it removed.
func Prune(root string, most int64) (removed int64, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the directory of indexes: %w", err)
	}
	type stored struct {
		path string
		used time.Time
		size int64
	}
	var list []stored
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !isIndex(e.Name()) {
			continue
		}
		path := filepath.Join(root, e.Name())
		size := sizeOf(path)
		total += size
		list = append(list, stored{path, info.ModTime(), size})
	}
	slices.SortFunc(list, func(a, b stored) int { return a.used.Compare(b.used) })
	var failed error
	for _, s := range list {
		if total <= most {
			break
		}
		lock, err := dirlock.Claim(s.path)
		if err != nil {
			continue // in use
		}
		trash := s.path + ".removed"
		if err = os.Rename(s.path, trash); err == nil {
			err = os.RemoveAll(trash)
		}
		lock.Release()
		if failed = errors.Join(failed, err); err == nil {
			total -= s.size
			removed += s.size
		}
	}
	return removed, failed
}

// isIndex says whether a directory is an index, or one that is being removed.
func isIndex(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == nameBytes
}

// Stored is an index below a root.
type Stored struct {
	Repo  string // address of the repository; "": unknown, until the index is used again
	Bytes int64
	Used  time.Time
}

// List returns the indexes below a root, the one that was used last first.
func List(root string) ([]Stored, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the directory of indexes: %w", err)
	}
	var all []Stored
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !isIndex(e.Name()) { // an error: just pruned
			continue
		}
		path := filepath.Join(root, e.Name())
		label, err := os.ReadFile(filepath.Join(path, labelFile))
		if err != nil || Name(string(label)) != e.Name() {
			label = nil
		}
		all = append(all, Stored{Repo: string(label), Bytes: sizeOf(path), Used: info.ModTime().UTC()})
	}
	slices.SortStableFunc(all, func(a, b Stored) int { return b.Used.Compare(a.Used) })
	return all, nil
}
