package environment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/dirlock"
	"github.com/rocketgpt/orchestrator/internal/rmtree"
)

// Store is a host's directory of environments, with the following layout:
//
//	<digest>/home           what every sandbox sees below its home
//	<digest>/work           what it sees below its work tree
//	<digest>/manifest.json  its description; written last
//	new-<random>/           an environment that is being made
//
// An environment is added with one rename, so it is either complete or absent. Processes on one
// host may share a Store; hosts share environments as archives.
type Store struct{ root string }

// At returns the store in a directory, which need not exist yet.
func At(dir string) Store { return Store{root: dir} }

// Manifest describes a complete environment.
type Manifest struct {
	Digest string `json:"digest"`
	RunID  int64  `json:"run_id"` // run that created it
	Recipe Recipe `json:"recipe"`
	// Unignored lists .gitignore patterns, relative to the root of the work tree, for files that
	// the setup added there and the repository does not ignore.
	Unignored []string  `json:"unignored,omitempty"`
	Bytes     int64     `json:"bytes"` // on disk
	Files     int64     `json:"files"`
	MadeAt    time.Time `json:"made_at"`
}

// Environment is an environment on this host. It is not removed before Close.
type Environment struct {
	Manifest
	dir  string
	lock *dirlock.Lock
}

// Home is the directory that sandboxes see below their home. It must not be written to.
func (e *Environment) Home() string { return filepath.Join(e.dir, "home") }

// Work is the directory that sandboxes see below the work tree. It must not be written to.
func (e *Environment) Work() string { return filepath.Join(e.dir, "work") }

// Close releases the environment. Closing a nil Environment is allowed, but not necessary.
func (e *Environment) Close() {
	if e != nil {
		e.lock.Release()
	}
}

const (
	manifestFile = "manifest.json"
	newPrefix    = "new-"
	goneSuffix   = ".removed"
)

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ErrNotHere reports that an environment is not on this host.
var ErrNotHere = errors.New("the environment is not on this host")

// Open returns an environment of this host, or ErrNotHere.
func (s Store) Open(digest string) (*Environment, error) {
	if !digestForm.MatchString(digest) {
		return nil, fmt.Errorf("%q is not the digest of an environment", digest)
	}
	root, err := s.folder()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, digest)
	lock, err := dirlock.Use(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotHere
	}
	if err != nil {
		return nil, fmt.Errorf("open an environment: %w", err)
	}
	e := &Environment{dir: dir, lock: lock}
	content, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err == nil {
		err = json.Unmarshal(content, &e.Manifest)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("read the manifest of an environment: %w", err)
	}
	now := time.Now()
	return e, os.Chtimes(dir, now, now)
}

// folder returns the store's directory without symbolic links, as sandboxes require.
func (s Store) folder() (string, error) {
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return "", fmt.Errorf("environments: %w", err)
	}
	root, err := filepath.EvalSymlinks(s.root)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return "", fmt.Errorf("environments: %w", err)
	}
	return root, nil
}

// Draft is an environment that is being created. The caller must Commit or Discard it.
type Draft struct {
	store Store
	dir   string
	lock  *dirlock.Lock
}

// New starts an environment in its own directory. Sweep removes drafts that killed processes leave
// behind.
func (s Store) New() (*Draft, error) {
	root, err := s.folder()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(root, newPrefix)
	if err != nil {
		return nil, fmt.Errorf("start a new environment: %w", err)
	}
	d := &Draft{store: s, dir: dir}
	for _, part := range []string{"home", "work", "tmp"} {
		if err = os.Mkdir(filepath.Join(dir, part), 0o755); err != nil {
			break
		}
	}
	if err == nil {
		d.lock, err = dirlock.Use(dir)
	}
	if err != nil {
		d.Discard()
		return nil, fmt.Errorf("start a new environment: %w", err)
	}
	return d, nil
}

// Home is the directory for the files that sandboxes will see below their home.
func (d *Draft) Home() string { return filepath.Join(d.dir, "home") }

// Work is the directory for the files that the setup added to the work tree.
func (d *Draft) Work() string { return filepath.Join(d.dir, "work") }

// Tmp is a temporary directory for the duration of the setup.
func (d *Draft) Tmp() string { return filepath.Join(d.dir, "tmp") }

// Seal completes a draft: it writes the manifest, including the size, and syncs everything to disk.
func (d *Draft) Seal(ctx context.Context, m Manifest) (Manifest, error) {
	if !digestForm.MatchString(m.Digest) {
		return m, fmt.Errorf("%q is not the digest of an environment", m.Digest)
	}
	if err := removeAll(d.Tmp()); err != nil {
		return m, fmt.Errorf("save the environment: %w", err)
	}
	m.Bytes, m.Files = usage(ctx, d.dir)
	content, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, manifestFile), content, 0o644)
	}
	if err == nil {
		err = syncFolder(d.dir)
	}
	if err != nil {
		return m, fmt.Errorf("save the environment: %w", err)
	}
	return m, nil
}

// Pack writes a sealed draft as an archive, from which Restore creates the same environment on any
// host.
func (d *Draft) Pack(ctx context.Context, w io.Writer) error { return pack(ctx, d.dir, w) }

// Commit stores a sealed draft under its digest on this host, and returns the environment open. If
// another process was faster, it returns that process's environment.
func (d *Draft) Commit(digest string) (*Environment, error) {
	defer d.Discard()
	err := os.Rename(d.dir, filepath.Join(filepath.Dir(d.dir), digest))
	e, opened := d.store.Open(digest)
	if opened == nil {
		return e, nil
	}
	return nil, fmt.Errorf("save the environment: %w", errors.Join(err, opened))
}

// Discard removes the draft. After Commit it does nothing.
func (d *Draft) Discard() {
	if d.lock != nil {
		d.lock.Release()
		d.lock = nil
	}
	_ = removeAll(d.dir)
}

// Restore creates the environment of a digest from an archive, whose unpacked size is limited to
// most bytes, and returns it open.
func (s Store) Restore(ctx context.Context, digest string, archive io.Reader, most int64) (*Environment, error) {
	d, err := s.New()
	if err != nil {
		return nil, err
	}
	defer d.Discard()
	for _, part := range []string{d.Home(), d.Work(), d.Tmp()} {
		if err := os.Remove(part); err != nil {
			return nil, fmt.Errorf("restore an environment: %w", err)
		}
	}
	if err := unpack(ctx, archive, d.dir, most); err != nil {
		return nil, err
	}
	var m Manifest
	content, err := os.ReadFile(filepath.Join(d.dir, manifestFile))
	if err == nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of an archive: %w", err)
	}
	if m.Digest != digest {
		return nil, fmt.Errorf("the archive contains the environment %s instead of %s", m.Digest, digest)
	}
	if err := syncFolder(d.dir); err != nil {
		return nil, fmt.Errorf("restore an environment: %w", err)
	}
	return d.Commit(digest)
}

// List returns the environments of this host, least recently used first.
func (s Store) List() ([]HostEnvironment, error) {
	root, err := s.folder()
	if err != nil {
		return nil, err
	}
	found, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	var all []HostEnvironment
	for _, f := range found {
		info, err := f.Info()
		if err != nil || !digestForm.MatchString(f.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, f.Name(), manifestFile))
		k := HostEnvironment{Used: info.ModTime()}
		if err == nil && json.Unmarshal(content, &k.Manifest) == nil {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b HostEnvironment) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.Digest, b.Digest)) })
	return all, nil
}

// HostEnvironment is an environment on this host, with the time of its last use.
type HostEnvironment struct {
	Manifest
	Used time.Time
}

// Retention limits the environments that a host keeps; 0 means no limit.
type Retention struct {
	Age   time.Duration // since the last use
	Bytes int64
	Count int
}

// Sweep removes environments that have not been used for b.Age, then the least recently used ones
// until the rest is within b.Bytes and b.Count, and the remains of interrupted processes. It keeps
// open environments, and those for which needed returns true.
func (s Store) Sweep(ctx context.Context, b Retention, needed func(digest string) bool) error {
	if err := s.sweepLeftovers(); err != nil {
		return err
	}
	all, err := s.List()
	if err != nil {
		return err
	}
	var bytes int64
	for _, k := range all {
		bytes += k.Bytes
	}
	count, oldest := len(all), time.Now().Add(-b.Age)
	for _, k := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		unwanted := b.Age > 0 && k.Used.Before(oldest) || b.Bytes > 0 && bytes > b.Bytes || b.Count > 0 && count > b.Count
		if !unwanted || needed(k.Digest) {
			continue
		}
		removed, err := s.Remove(k.Digest)
		if err != nil {
			return err
		}
		if removed {
			bytes, count = bytes-k.Bytes, count-1
		}
	}
	return nil
}

// sweepLeftovers deletes drafts and removed environments that no process is using.
func (s Store) sweepLeftovers() error {
	root, err := s.folder()
	if err != nil {
		return err
	}
	found, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("list environments: %w", err)
	}
	for _, f := range found {
		if strings.HasPrefix(f.Name(), newPrefix) || strings.HasSuffix(f.Name(), goneSuffix) {
			if err := removeFree(filepath.Join(root, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeFree removes a directory unless a live process is using it.
func removeFree(dir string) error {
	lock, err := dirlock.Claim(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, dirlock.ErrInUse) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove an unused environment directory: %w", err)
	}
	defer lock.Release()
	return removeAll(dir)
}

// Remove removes an environment from this host and reports whether it did: an open one stays.
func (s Store) Remove(digest string) (bool, error) {
	root, err := s.folder()
	if err != nil || !digestForm.MatchString(digest) {
		return false, err
	}
	dir := filepath.Join(root, digest)
	lock, err := dirlock.Claim(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, dirlock.ErrInUse) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove an environment: %w", err)
	}
	defer lock.Release()
	gone := fmt.Sprintf("%s.%d%s", dir, time.Now().UnixNano(), goneSuffix)
	if err := os.Rename(dir, gone); err != nil {
		return false, fmt.Errorf("remove an environment: %w", err)
	}
	return true, removeAll(gone)
}

// removeAll also removes directories that a command made inaccessible to their owner, as Go does in
// its module cache.
func removeAll(dir string) error { return rmtree.Remove(dir) }

// usage returns the disk usage of a directory and its number of files.
func usage(ctx context.Context, dir string) (bytes, files int64) {
	seen := map[inode]bool{}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // unreadable files are not counted
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			id := inode{stat.Dev, stat.Ino}
			if stat.Nlink > 1 && !d.IsDir() {
				if seen[id] {
					return nil
				}
				seen[id] = true
			}
			bytes += stat.Blocks * 512
		}
		if !d.IsDir() {
			files++
		}
		return nil
	})
	return bytes, files
}

// syncFolder writes cached data of the directory's file system to disk: an environment must not
// have empty files after a power loss.
func syncFolder(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Syncfs(int(file.Fd()))
}
