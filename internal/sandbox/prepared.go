package sandbox

import (
	"cmp"
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
)

// Prepared directories are the parts of a sandbox that are the same for all commands: the files of
// /etc, and the changed directories of toolchains. The worker writes them once, so that a command
// needs one mount for each directory instead of one mount or copy for each file: bubblewrap reads
// the list of all mounts again for each mount that it makes.
//
// A directory's name is the digest of its content, so several workers can share it. Commands see it
// read-only.

// Limits of prepared directories.
const (
	// preparedAge is the time without use after which a prepared directory is removed.
	preparedAge = 14 * 24 * time.Hour
	// preparedTouch is the interval at which a directory that is in use is marked as such.
	preparedTouch = 24 * time.Hour
	// etcCheck is the interval at which the host's /etc is compared with its copy.
	etcCheck = time.Minute
	// etcDirBytes limits the size of the copy of a directory of /etc, and etcDirFiles the number of
	// its files; larger ones are mounted.
	etcDirBytes = 8 << 20
	etcDirFiles = 5000
)

// prepared makes the prepared directories of a runner.
type prepared struct {
	base string // the directory that contains them
	host string // the host's /etc

	mu         sync.Mutex
	toolchains []mount
	etc        []mount
	checked    time.Time // when the host's /etc was last compared
	stamp      string    // of the host's /etc at that time
}

// preparedBase returns where a runner with this data folder prepares directories.
func preparedBase(dataDir string) (string, error) {
	if info, err := os.Stat(dataDir); err == nil && info.IsDir() {
		return filepath.Join(dataDir, "cache", "system"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("sandbox: find a directory for the files of /etc that commands see: %w", err)
	}
	return filepath.Join(dir, "rgpt", "system"), nil
}

// systemMounts returns the mounts of the system directories and of /etc, and those of the
// toolchains. Changes to the host's /etc appear after at most etcCheck.
func (p *prepared) systemMounts(t Toolchains) (system, toolchains []mount, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.toolchains == nil || !allExist(p.toolchains) {
		if p.toolchains, err = p.fold(t.mounts); err != nil {
			return nil, nil, err
		}
	}
	if p.etc == nil || !allExist(p.etc) || time.Since(p.checked) > etcCheck {
		if err := p.copyEtc(); err != nil {
			return nil, nil, err
		}
	}
	return slices.Concat(systemDirMounts(), p.etc), p.toolchains, nil
}

// allExist reports whether no prepared directory was deleted.
func allExist(mounts []mount) bool {
	for _, m := range mounts {
		if m.Kind == mountPrepared {
			if _, err := os.Lstat(m.Source); err != nil {
				return false
			}
		}
	}
	return true
}

// copyEtc copies the files of /etc unless that was done and they have not changed.
func (p *prepared) copyEtc() error {
	stamp := p.etcStamp()
	p.checked = time.Now()
	if p.etc != nil && allExist(p.etc) && stamp == p.stamp {
		return p.touch(p.etc[0].Source)
	}
	entries, large := p.etcEntries()
	dir, err := p.directory(entries)
	if err != nil {
		return err
	}
	p.etc, p.stamp = append([]mount{{Kind: mountPrepared, Source: dir, Target: "/etc"}}, large...), stamp
	return nil
}

// fold replaces each mountEmpty that gets only files and links by one prepared directory.
func (p *prepared) fold(mounts []mount) ([]mount, error) {
	folded := slices.Clone(mounts)
	for _, m := range mounts {
		if m.Kind != mountEmpty {
			continue
		}
		below := func(other mount) bool { return other.Target != m.Target && within(other.Target, m.Target) }
		var entries []entry
		plain := true
		for _, other := range mounts {
			if below(other) {
				e, ok := entryOf(other, m.Target)
				plain = plain && ok
				entries = append(entries, e)
			}
		}
		if !plain {
			continue
		}
		dir, err := p.directory(entries)
		if err != nil {
			return nil, err
		}
		folded = slices.DeleteFunc(folded, below)
		for i := range folded {
			if folded[i].Target == m.Target {
				folded[i] = mount{Kind: mountPrepared, Source: dir, Target: m.Target}
			}
		}
	}
	return folded, nil
}

// entry is a file, directory or symbolic link in a prepared directory.
type entry struct {
	Path string // relative
	Mode fs.FileMode
	Data []byte // content, or the target of a link
}

// entryOf returns the entry for a mount below dir; false means that it must be mounted.
func entryOf(m mount, dir string) (entry, bool) {
	e := entry{Path: strings.TrimPrefix(m.Target, dir+"/"), Data: m.Data}
	switch m.Kind {
	case mountFile:
		e.Mode = 0o444
	case mountProgram:
		e.Mode = 0o555
	case mountSymlink:
		e.Mode, e.Data = fs.ModeSymlink, []byte(m.Source)
	default:
		return e, false
	}
	return e, true
}

// directory returns a directory with these entries.
func (p *prepared) directory(entries []entry) (string, error) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(entries); err != nil {
		return "", fmt.Errorf("sandbox: encode a prepared directory: %w", err)
	}
	dir := filepath.Join(p.base, hex.EncodeToString(hash.Sum(nil)[:16]))
	if _, err := os.Lstat(dir); err == nil {
		return dir, p.touch(dir)
	}
	if err := p.write(dir, entries); err != nil {
		return "", fmt.Errorf("sandbox: prepare a directory for commands: %w", err)
	}
	p.sweep()
	return dir, nil
}

// write writes the entries beside dir and renames the result, so that dir is complete.
func (p *prepared) write(dir string, entries []entry) (err error) {
	if err := os.MkdirAll(p.base, 0o700); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(p.base, "new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	for _, e := range entries {
		if err := e.write(temporary); err != nil {
			return err
		}
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	if err := os.Rename(temporary, dir); err != nil {
		if _, exists := os.Lstat(dir); exists != nil { // otherwise another worker was faster
			return err
		}
	}
	return nil
}

func (e entry) write(dir string) error {
	path := filepath.Join(dir, e.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch {
	case e.Mode.IsDir():
		return os.MkdirAll(path, 0o755)
	case e.Mode&fs.ModeSymlink != 0:
		return os.Symlink(string(e.Data), path)
	}
	if err := os.WriteFile(path, e.Data, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, e.Mode.Perm()) // regardless of the umask
}

// touch marks a directory as used.
func (p *prepared) touch(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || time.Since(info.ModTime()) < preparedTouch {
		return err
	}
	return os.Chtimes(dir, time.Time{}, time.Now())
}

// sweep removes directories that no worker has used for preparedAge. What cannot be removed is tried
// again by the next worker.
func (p *prepared) sweep() {
	dirs, err := os.ReadDir(p.base)
	if err != nil {
		return
	}
	for _, d := range dirs {
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > preparedAge {
			_ = os.RemoveAll(filepath.Join(p.base, d.Name()))
		}
	}
}

// etcEntries returns the copy of the host's public files in /etc, with the sandbox's own, and the
// mounts of directories that are too large for a copy.
func (p *prepared) etcEntries() (entries []entry, large []mount) {
	for _, m := range identityFiles() {
		e, _ := entryOf(m, "/etc")
		entries = append(entries, e)
	}
	for _, name := range etcFiles {
		if e, ok := etcFile(name, filepath.Join(p.host, name)); ok {
			entries = append(entries, e)
		}
	}
	for _, name := range etcDirs {
		// The link's target, which may be in /run, appears at the link's path.
		source, err := filepath.EvalSymlinks(filepath.Join(p.host, name))
		if err != nil {
			continue
		}
		entries = append(entries, entry{Path: name, Mode: fs.ModeDir})
		if files, ok := etcDir(name, source); ok {
			entries = append(entries, files...)
		} else {
			large = append(large, mount{Kind: mountReadOnly, Source: source, Target: filepath.Join("/etc", name)})
		}
	}
	return entries, large
}

// etcFile returns a copy of a file that every user of the host may read.
func etcFile(name, path string) (entry, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > etcFileBytes || info.Mode()&0o004 == 0 {
		return entry{}, false
	}
	data, err := os.ReadFile(path)
	return entry{Path: name, Mode: 0o444, Data: data}, err == nil
}

// etcDir returns a copy of a directory, or false if it is too large or changes meanwhile.
func etcDir(name, source string) (entries []entry, ok bool) {
	bytes := 0
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == source {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		e := entry{Path: filepath.Join(name, rel), Mode: d.Type()}
		switch {
		case d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			e.Data = []byte(target)
		default:
			if e, ok = etcFile(e.Path, path); !ok {
				return nil
			}
		}
		bytes += len(e.Data)
		entries = append(entries, e)
		if bytes > etcDirBytes || len(entries) > etcDirFiles {
			return unix.EFBIG
		}
		return nil
	})
	return entries, err == nil
}

// etcStamp changes with the host's public files in /etc.
func (p *prepared) etcStamp() string {
	hash := sha256.New()
	add := func(path string, info fs.FileInfo) {
		fmt.Fprintln(hash, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
	}
	for _, name := range etcFiles {
		path := filepath.Join(p.host, name)
		if info, err := os.Stat(path); err == nil {
			add(path, info)
		}
	}
	for _, name := range etcDirs {
		source, err := filepath.EvalSymlinks(filepath.Join(p.host, name))
		if err != nil {
			continue
		}
		_ = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it is missing from the copy, too
			}
			if info, err := d.Info(); err == nil {
				add(path, info)
			}
			return nil
		})
	}
	return string(hash.Sum(nil))
}
