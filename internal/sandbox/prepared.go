package sandbox

import (
	"bytes"
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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Prepared directories are the parts of a sandbox that are the same for all commands: the files of
// /etc, and the changed directories of toolchains. The worker writes them once, so that a command
// needs one mount for each directory instead of one mount or copy for each file: bubblewrap reads
// the list of all mounts again for each mount that it makes.
//
// A directory's name is the digest of the content that it was made with, so several workers can share
// it. Commands see it read-only.

// PreparedAge is the time without use after which a prepared directory is removed.
const PreparedAge = 14 * 24 * time.Hour

// Limits of prepared directories.
const (
	// preparedTouch is the interval at which a directory that is in use is marked as such.
	preparedTouch = 24 * time.Hour
	// etcCheck is the interval at which the host's /etc is compared with its copy.
	etcCheck = time.Minute
	// etcDirBytes limits the size of the copy of a directory of /etc, and etcDirFiles the number of
	// its files; larger ones, and those with a file of more than etcFileBytes, are mounted.
	etcDirBytes = 8 << 20
	etcDirFiles = 5000
)

// prepared makes the prepared directories of a runner.
type prepared struct {
	dataDir string
	host    string // the host's /etc

	mu         sync.Mutex
	base       string // contains the directories
	toolchains []mount
	etc        []entry           // the copy of the host's /etc
	large      []mount           // directories of /etc that are too large for a copy
	etcDirs    map[string]string // directories for /etc, by their mount points
	checked    time.Time         // when the host's /etc was last compared
	stamp      string            // of the host's /etc at that time
}

// open finds the directory that contains the prepared ones: in the data folder, or else in the user's
// cache directory or, without one, in the directory for temporary files.
func (p *prepared) open() error {
	if p.base != "" {
		return nil
	}
	var tried []error
	for _, base := range p.candidates() {
		err := os.MkdirAll(base, 0o700)
		if err == nil {
			err = ownDirectory(base)
		}
		if err == nil {
			p.base = base
			return nil
		}
		tried = append(tried, err)
	}
	return fmt.Errorf("sandbox: no directory for the files that all commands see: %w", errors.Join(tried...))
}

func (p *prepared) candidates() []string {
	var all []string
	if info, err := os.Stat(p.dataDir); err == nil && info.IsDir() {
		// Root does not leave its files in the data folder of another user, such as when it runs a
		// diagnosis.
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && (unix.Geteuid() != 0 || stat.Uid == 0) {
			all = append(all, filepath.Join(p.dataDir, "cache", "system"))
		}
	}
	if dir, err := os.UserCacheDir(); err == nil && filepath.IsAbs(dir) {
		all = append(all, filepath.Join(dir, "rgpt", "system"))
	}
	return append(all, filepath.Join(os.TempDir(), fmt.Sprint("rgpt-system-", unix.Geteuid())))
}

// ownDirectory returns an error if a directory belongs to another user, who could change what
// commands see.
func ownDirectory(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != unix.Geteuid() {
		return fmt.Errorf("%s is not a directory of user %d", path, unix.Geteuid())
	}
	return nil
}

// systemMounts returns the mounts of the system directories and of /etc, and those of the
// toolchains, for a command. Changes to the host's /etc appear after at most etcCheck.
func (p *prepared) systemMounts(t Toolchains, c Command) (system, toolchains []mount, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, nil, err
	}
	due := time.Since(p.checked) > etcCheck
	if due {
		p.touchAll()
	}
	if p.toolchains == nil || !allExist(p.toolchains) {
		if p.toolchains, err = p.fold(t.mounts); err != nil {
			return nil, nil, err
		}
	}
	if due {
		p.readEtc()
	}
	etc, err := p.etcFor(mountPoints(c))
	if due {
		p.sweep()
	}
	return slices.Concat(systemDirMounts(), etc), p.toolchains, err
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

// touchAll marks the directories of this runner as used.
func (p *prepared) touchAll() {
	for _, m := range p.toolchains {
		if m.Kind == mountPrepared {
			touch(m.Source)
		}
	}
	for _, dir := range p.etcDirs {
		touch(dir)
	}
}

// readEtc copies the files of /etc unless they have not changed since.
func (p *prepared) readEtc() {
	stamp := p.etcStamp()
	if p.etc == nil || stamp != p.stamp {
		p.etc, p.large = p.etcEntries()
		p.etcDirs, p.stamp = map[string]string{}, stamp
	}
	p.checked = time.Now()
}

// etcFor returns the mounts of /etc, with the given mount points in it.
func (p *prepared) etcFor(points []entry) ([]mount, error) {
	var key strings.Builder
	for _, e := range points {
		fmt.Fprintln(&key, e.Path, e.Mode)
	}
	dir := p.etcDirs[key.String()]
	if _, err := os.Lstat(dir); err != nil { // not yet made, or deleted
		if dir, err = p.directory(withPoints(p.etc, points)); err != nil {
			return nil, err
		}
		p.etcDirs[key.String()] = dir
	}
	return append([]mount{{Kind: mountPrepared, Source: dir, Target: "/etc"}}, p.large...), nil
}

// mountPoints returns what must exist in /etc for the mounts of a command: /etc is read-only when
// they are made.
func mountPoints(c Command) []entry {
	var points []entry
	for _, m := range c.Mounts {
		if !within(m.Inside, "/etc") {
			continue
		}
		e := entry{Path: strings.TrimPrefix(m.Inside, "/etc/"), Mode: 0o444}
		if info, err := os.Stat(m.Host); err == nil && info.IsDir() {
			e.Mode = fs.ModeDir
		}
		points = append(points, e)
	}
	if target := bundleTarget(); needsTrust(c) && within(target, "/etc") {
		points = append(points, entry{Path: strings.TrimPrefix(target, "/etc/"), Mode: 0o444})
	}
	slices.SortFunc(points, func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	return points
}

// withPoints adds the mount points that do not exist.
func withPoints(entries, points []entry) []entry {
	all := slices.Clone(entries)
	for _, point := range points {
		exists := func(e entry) bool { return within(e.Path, point.Path) }
		if !slices.ContainsFunc(all, exists) {
			all = append(all, point)
		}
	}
	return all
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
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(entries); err != nil {
		return "", fmt.Errorf("sandbox: encode a prepared directory: %w", err)
	}
	dir := filepath.Join(p.base, hex.EncodeToString(hash.Sum(nil)[:16]))
	touch(dir)
	if holds(dir, entries) {
		return dir, nil
	}
	p.discard(filepath.Base(dir)) // what a loss of power or a person left of it
	if err := p.write(dir, entries); err != nil {
		return "", fmt.Errorf("sandbox: prepare a directory for commands: %w", err)
	}
	return dir, nil
}

// holds reports whether a directory has these entries.
func holds(dir string, entries []entry) bool {
	for _, e := range entries {
		path := filepath.Join(dir, e.Path)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != e.Mode.Type() {
			return false
		}
		var data []byte
		switch {
		case e.Mode.IsDir():
		case e.Mode&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(path)
			data = []byte(target)
		default:
			data, err = os.ReadFile(path)
		}
		if err != nil || !bytes.Equal(data, e.Data) {
			return false
		}
	}
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
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
	root, err := os.OpenRoot(temporary)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, e := range entries {
		if err := e.write(root); err != nil {
			return err
		}
	}
	if err := openToAll(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, dir); err != nil {
		if _, exists := os.Lstat(dir); exists != nil { // otherwise another worker was faster
			return err
		}
	}
	return nil
}

// openToAll lets all users read the directories of a tree, regardless of the umask.
func openToAll(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
}

// write writes an entry below a root, also if a link in a copied directory leads elsewhere.
func (e entry) write(root *os.Root) error {
	if err := root.MkdirAll(filepath.Dir(e.Path), 0o755); err != nil {
		return err
	}
	switch {
	case e.Mode.IsDir():
		return root.MkdirAll(e.Path, 0o755)
	case e.Mode&fs.ModeSymlink != 0:
		return root.Symlink(string(e.Data), e.Path)
	}
	if err := root.WriteFile(e.Path, e.Data, 0o600); err != nil {
		return err
	}
	return root.Chmod(e.Path, e.Mode.Perm())
}

// touch marks a directory as used. If that fails, it does not exist, and will be noticed.
func touch(dir string) {
	if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > preparedTouch {
		_ = os.Chtimes(dir, time.Time{}, time.Now())
	}
}

// sweep removes directories that no worker has used for PreparedAge. What cannot be removed is tried
// again by the next worker.
func (p *prepared) sweep() {
	dirs, err := os.ReadDir(p.base)
	if err != nil {
		return
	}
	for _, d := range dirs {
		if info, err := d.Info(); err != nil || time.Since(info.ModTime()) < PreparedAge {
			continue
		}
		p.discard(d.Name())
	}
}

// discard removes a directory. It gets another name first: no worker must use a part of it.
func (p *prepared) discard(name string) {
	old := filepath.Join(p.base, "old-"+strings.TrimPrefix(name, "old-"))
	if os.Rename(filepath.Join(p.base, name), old) == nil {
		_ = os.RemoveAll(old) // what remains is swept later
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
		path := filepath.Join(p.host, name)
		if !public(path) {
			continue
		}
		if e, err := etcFile(name, path); err == nil {
			entries = append(entries, e)
		}
	}
	for _, name := range etcDirs {
		// The link's target, which may be in /run, appears at the link's path.
		source, err := filepath.EvalSymlinks(filepath.Join(p.host, name))
		if err != nil || !public(source) {
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

// public reports whether every user of the host may read a directory or file, if they may enter the
// directories above it.
func public(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() && info.Mode()&0o005 == 0o005 || info.Mode().IsRegular() && info.Mode()&0o004 != 0)
}

// errTooLarge means that a file or directory is mounted and not copied.
var errTooLarge = errors.New("too large for a copy")

// etcFile returns a copy of a public file.
func etcFile(name, path string) (entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return entry{}, err
	}
	if info.Size() > etcFileBytes {
		return entry{}, errTooLarge
	}
	data, err := os.ReadFile(path)
	return entry{Path: name, Mode: 0o444, Data: data}, err
}

// etcDir returns a copy of what is public in a directory, or false if it is too large or changes
// meanwhile.
func etcDir(name, source string) (entries []entry, ok bool) {
	size := 0
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
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			e.Data = []byte(target)
		case !public(path):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case !d.IsDir():
			if e, err = etcFile(e.Path, path); err != nil {
				return err
			}
		}
		size += len(e.Data)
		entries = append(entries, e)
		if size > etcDirBytes || len(entries) > etcDirFiles {
			return errTooLarge
		}
		return nil
	})
	return entries, err == nil
}

// etcStamp changes with the host's public files in /etc.
func (p *prepared) etcStamp() string {
	hash := sha256.New()
	add := func(path string, info fs.FileInfo) {
		stat, _ := info.Sys().(*syscall.Stat_t)
		fmt.Fprintln(hash, path, info.Mode(), info.Size(), info.ModTime().UnixNano(), stat.Dev, stat.Ino)
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
