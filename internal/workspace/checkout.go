package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/contract"
)

// What commands did to a checkout can be undone without reading its files: whatever they did to a file since
// it was recorded has changed its change time (ctime), which nobody can set. So the directory of one check
// serves the next one, instead of being filled by git and removed again each time.

// Checkout is an open directory for commands whose changes nobody saves, such as those of tests. The caller
// must close it or give it back.
type Checkout struct {
	dir    *Dir
	record *record // nil: the directory is not kept
	reason string  // why record is nil
}

// errNotKept is wrapped by the reasons why a directory is not kept.
var errNotKept = errors.New("the directory is not kept")

func notKept(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotKept, fmt.Sprintf(format, args...))
}

// OpenCheckout is Open for commands whose changes nobody saves: the content is the workspace's, and all files
// are new. If the commands are traceable, the directory may be a spare one, whose files were renewed, and
// [Checkout.GiveBack] can make it a spare one again. They are traceable if none of their processes outlives
// them, and each change of a file's content or attributes changes its ctime.
func (m *Manager) OpenCheckout(ctx context.Context, ws contract.Workspace, key string, traceable bool) (*Checkout, error) {
	c := &Checkout{reason: m.keepsCheckouts(traceable)}
	var err error
	c.dir, err = m.open(ctx, ws, key, func(d *Dir) error {
		if err := d.prepare(ctx, c.reason == ""); err != nil {
			return err
		}
		if c.reason == "" {
			return c.begin(ctx, d)
		}
		if d.reused {
			return d.renew(ctx)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// keepsCheckouts returns the reason why directories of checkouts cannot be kept, "" if they can. Those that
// cannot do not use spare ones either, which would only be lost to others.
func (m *Manager) keepsCheckouts(traceable bool) (reason string) {
	if !traceable {
		return "processes of commands may outlive them, or change files unseen"
	}
	if m.options.MaxSpareDirs == 0 {
		return "no spare directories are kept"
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(m.dirsRoot(), &stat); err != nil {
		return "the file system is unknown: " + err.Error()
	}
	// Not tmpfs, for example: what a process writes to a mapped file there need not change its ctime. Nor
	// network file systems, whose clock is another one. On XFS, directories have attributes that are not compared.
	if int64(stat.Type) != unix.EXT4_SUPER_MAGIC { //nolint:unconvert // its size depends on the architecture
		return "the file system may not record all changes"
	}
	return ""
}

// Path returns the work tree's absolute path, free of symbolic links.
func (c *Checkout) Path() string { return c.dir.Path() }

// Close releases the directory, which CleanUp removes. It may be called more than once.
func (c *Checkout) Close() { c.dir.Close() }

// begin renews the files of a reused directory and records all of them.
func (c *Checkout) begin(ctx context.Context, d *Dir) error {
	if err := d.removeMarker(); err != nil {
		return err
	}
	r := &recorder{record: record{entries: map[string]fileState{}}, touch: d.reused}
	if !d.plain {
		r.refuse("something may be left there that the tree does not describe")
	}
	if err := r.tree(d.Path()); err != nil {
		return wrapf(err, "could not read a workspace directory")
	}
	if d.reused {
		d.reused, d.stale = false, true // the index has other times
	}
	if c.reason = r.reason; c.reason != "" {
		return nil
	}
	settled, err := settle(ctx, r.newest)
	switch {
	case err != nil:
		return err
	case !settled || !r.precise:
		c.reason = "the file system's clock is behind or imprecise"
	default:
		c.record = &r.record
	}
	return nil
}

// GiveBack closes the directory and keeps it as a spare one with the files as they were. The commands must
// have ended. It returns the reason if it cannot, or if that would take long: then CleanUp removes the
// directory. It removes the directory itself if something is left beside the work tree, or others have become
// spare ones meanwhile.
func (c *Checkout) GiveBack(ctx context.Context) error {
	defer c.Close()
	d := c.dir
	switch {
	case d.lock == nil:
		return notKept("it is closed")
	case c.record == nil:
		return notKept("%s", c.reason)
	}
	found := c.record
	c.record, c.reason = nil, "it was given back before"
	if ok, err := d.m.canKeepSpare(d.repo.id); err != nil || !ok {
		return errors.Join(notKept("there are enough spare directories, or the disk is nearly full"), err)
	}
	changed, err := d.restore(ctx, found)
	if err != nil {
		return err
	}
	d.plain, d.stale = true, d.stale || changed
	if err := d.writeMarker(); err != nil {
		return err
	}
	lock := d.lock
	d.lock, d.writable = nil, false
	return d.m.retire(lock, filepath.Base(d.root))
}

// maxRecorded limits the entries of a checkout that are recorded, each of which takes about 150 bytes.
const maxRecorded = 100_000

// record is what a checkout consisted of when its commands began.
type record struct {
	device   uint64
	uid, gid uint32
	entries  map[string]fileState // by path in the work tree; the path of the work tree itself is ""
}

// fileState are properties of a file, at least one of which differs after every change.
type fileState struct {
	mode          uint32
	inode         uint64
	size          int64
	seconds, nano int64 // ctime
}

func fileStateOf(s *unix.Stat_t) fileState {
	seconds, nano := s.Ctim.Unix()
	return fileState{mode: s.Mode, inode: s.Ino, size: s.Size, seconds: seconds, nano: nano}
}

func (t fileState) kind() uint32 { return t.mode & unix.S_IFMT }

// recorder reads a tree that nothing changes meanwhile.
type recorder struct {
	record
	touch   bool // it renews all files as well
	newest  time.Time
	precise bool   // there are times with fractions of seconds
	reason  string // why the checkout cannot be kept; empty: it can
}

func (r *recorder) refuse(why string) {
	if r.reason == "" {
		r.reason = why
	}
}

func (r *recorder) tree(path string) error {
	folder, err := openFolder(unix.AT_FDCWD, path)
	if err != nil {
		return err
	}
	defer folder.Close()
	var stat unix.Stat_t
	if r.touch {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = unix.Fstat(int(folder.Fd()), &stat)
	}
	if err != nil {
		return err
	}
	r.device, r.uid, r.gid = stat.Dev, stat.Uid, stat.Gid
	if int(r.uid) != os.Geteuid() {
		r.refuse("it belongs to another user")
	}
	r.note("", &stat)
	return r.content(folder, "")
}

func (r *recorder) content(folder *os.File, at string) error {
	fd := int(folder.Fd())
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if r.touch {
			if err := unix.UtimesNanoAt(fd, name, nil, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		var stat unix.Stat_t
		if err := unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		path := inFolder(at, name)
		r.note(path, &stat)
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		inner, err := openFolder(fd, name)
		if err != nil {
			return err
		}
		err = r.content(inner, path)
		inner.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) note(path string, stat *unix.Stat_t) {
	switch {
	case r.reason != "":
		return
	case stat.Dev != r.device, stat.Uid != r.uid, stat.Gid != r.gid:
		r.refuse("its files belong to several users or file systems")
	case len(r.entries) == maxRecorded:
		r.refuse("it has too many files")
	default:
		r.entries[path] = fileStateOf(stat)
	}
	if changed := time.Unix(stat.Ctim.Unix()); changed.After(r.newest) {
		r.newest = changed
	}
	r.precise = r.precise || stat.Ctim.Nsec != 0
}

func inFolder(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// openFolder opens a directory, but not a link.
func openFolder(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

const (
	// settleTick is how often settle looks at the clock. File times advance every one to ten milliseconds.
	settleTick = time.Millisecond
	// settleTicks limits how often. A clock that was set back may take long.
	settleTicks = 50
)

// settle waits until the clock from which file systems take times is past a time, so that all later changes
// have later times. It gives up after settleTicks.
func settle(ctx context.Context, past time.Time) (bool, error) {
	for range settleTicks {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			return false, nil //nolint:nilerr // without such a clock, the directory is not kept
		}
		if time.Unix(now.Unix()).After(past) {
			return true, nil
		}
		timer := time.NewTimer(settleTick)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, wrapf(context.Cause(ctx), "stopped waiting for a workspace directory")
		case <-timer.C:
		}
	}
	return false, nil
}

// restore undoes what commands did to the work tree, and reports whether it wrote any files. It consumes the
// record. It fails if it cannot be sure of the result.
func (d *Dir) restore(ctx context.Context, was *record) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxRestoreTime)
	defer cancel()
	r := &restorer{record: was, ctx: ctx}
	parent, err := openFolder(unix.AT_FDCWD, d.root)
	if err != nil {
		return false, err
	}
	defer parent.Close()
	if r.own, err = attributesOf(int(parent.Fd())); err != nil {
		return false, err
	}
	var stat unix.Stat_t
	name := filepath.Base(d.Path())
	if err := unix.Fstatat(int(parent.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, err
	}
	if same, err := r.folder(int(parent.Fd()), name, "", &stat); err != nil || !same {
		return false, errors.Join(notKept("the work tree is another one"), err)
	}
	return len(was.entries) > 0, d.rewrite(was.entries)
}

// restorer removes what was changed or added in a tree in which nothing runs any longer. What it finds as it
// was, it removes from the record.
type restorer struct {
	*record
	ctx     context.Context //nolint:containedctx // of the one call of restore that it is for
	own     attributes      // of a directory that commands cannot change
	removed int             // entries of the record
	added   int             // other entries
}

const (
	// maxAdded limits the entries that restoring removes because commands added them. More are removed with the
	// run: a check must not wait for that.
	maxAdded = 10_000
	// maxRestoreTime limits how long a check waits until its directory is restored.
	maxRestoreTime = 2 * time.Second
	// maxAddedDepth limits how deeply they are nested.
	maxAddedDepth = 32
)

// folder restores a directory that is in the record, except for missing files. It returns false if another
// one has its place.
func (r *restorer) folder(parent int, name, path string, stat *unix.Stat_t) (same bool, err error) {
	was, now := r.entries[path], fileStateOf(stat)
	if now.kind() != was.kind() || now.inode != was.inode || stat.Dev != r.device {
		return false, nil
	}
	if stat.Uid != r.uid || stat.Gid != r.gid {
		return false, notKept("%q belongs to another user", path)
	}
	if now.mode != was.mode {
		if err := unix.Fchmodat(parent, name, was.mode&^unix.S_IFMT, 0); err != nil {
			return false, notKept("the mode of %q cannot be restored: %v", path, err)
		}
	}
	folder, err := openFolder(parent, name)
	if err != nil {
		return false, err
	}
	defer folder.Close()
	if now != was {
		if err := r.own.restore(int(folder.Fd())); err != nil {
			return false, fmt.Errorf("%q: %w", path, err)
		}
	}
	delete(r.entries, path)
	return true, r.content(folder, path)
}

func (r *restorer) content(folder *os.File, at string) error {
	names, err := r.names(folder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.entry(int(folder.Fd()), name, inFolder(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// names lists a directory, unless it has more entries than restoring may handle.
func (r *restorer) names(folder *os.File) ([]string, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, notKept("restoring it takes long")
	}
	names, err := folder.Readdirnames(maxRecorded + maxAdded)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err == nil && len(names) == maxRecorded+maxAdded:
		return nil, notKept("too many files were added")
	}
	return names, err
}

func (r *restorer) entry(parent int, name, path string) error {
	was, known := r.entries[path]
	if !known {
		return r.remove(parent, name, 0)
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	var same bool
	var err error
	if was.kind() == unix.S_IFDIR {
		same, err = r.folder(parent, name, path, &stat)
	} else if same = stat.Dev == r.device && fileStateOf(&stat) == was; same {
		delete(r.entries, path)
	}
	if err != nil || same {
		return err
	}
	if r.removed++; r.removed > maxDifference {
		return notKept("too many files were changed")
	}
	return r.remove(parent, name, 0)
}

// remove removes an entry with all that is below it.
func (r *restorer) remove(parent int, name string, depth int) error {
	if r.added++; r.added > maxAdded || depth > maxAddedDepth {
		return notKept("too many files were added")
	}
	err := unix.Unlinkat(parent, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	folder, err := openFolder(parent, name)
	if err != nil {
		return notKept("%q cannot be removed: %v", name, err)
	}
	defer folder.Close()
	names, err := r.names(folder)
	if err != nil {
		return err
	}
	for _, inner := range names {
		if err := r.remove(int(folder.Fd()), inner, depth+1); err != nil {
			return err
		}
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// rewrite writes the missing files of the wanted tree. Directories come into being with their files.
func (d *Dir) rewrite(missing map[string]fileState) error {
	if len(missing) == 0 {
		return nil
	}
	paths := slices.Sorted(maps.Keys(missing))
	files, err := d.contents(slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return missing[p].kind() == unix.S_IFDIR }), missing)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(d.Path())
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := createFile(root, f.path, f.new.mode, f.content); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if missing[path].kind() != unix.S_IFDIR {
			continue
		}
		if info, err := root.Lstat(path); err != nil || !info.IsDir() {
			return notKept("the directory %q, which had no files, was removed", path)
		}
	}
	return nil
}

// contents reads files of the wanted tree, under the same limits as difference.
func (d *Dir) contents(paths []string, missing map[string]fileState) ([]writtenChange, error) {
	if len(paths) > maxDifference {
		return nil, notKept("too many files were changed")
	}
	files := make([]writtenChange, 0, len(paths))
	total := 0
	for _, path := range paths {
		parts, plain := plainParts(path)
		if !plain || missing[path].kind() != unix.S_IFREG {
			return nil, notKept("%q was changed; only regular files with plain names can be restored", path)
		}
		entry, found, err := d.repo.find(d.ws.Tree, parts)
		if err != nil {
			return nil, err
		}
		if !found || entry.mode != modeFile && entry.mode != modeExecutable {
			return nil, notKept("%q is not a regular file in the tree", path)
		}
		content, err := d.repo.object(kindBlob, entry.id)
		if err != nil {
			return nil, err
		}
		if total += len(content); total > maxDifferenceBytes {
			return nil, notKept("the changed files are too large")
		}
		files = append(files, writtenChange{fileChange{path: path, new: entry}, content})
	}
	return files, nil
}

// attributes are what a directory passes on to its files besides its mode.
type attributes struct {
	flags    uint32
	extended map[string]string
}

// implicitFlags are the flags that file systems set on directories by themselves: compressed blocks, dirty, hashed
// index, huge, extents, inline.
const implicitFlags = 0x200 | 0x100 | 0x1000 | 0x40000 | 0x80000 | 0x10000000

func attributesOf(fd int) (attributes, error) {
	a := attributes{extended: map[string]string{}}
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil && !unsupported(err) {
		return a, fmt.Errorf("read the flags of a directory: %w", err)
	}
	a.flags = flags &^ implicitFlags
	names, err := extendedNames(fd)
	if err != nil {
		return a, err
	}
	for _, name := range names {
		value, err := extended(fd, name)
		if err != nil {
			return a, err
		}
		a.extended[name] = value
	}
	return a, nil
}

func unsupported(err error) bool {
	return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)
}

// restore makes a directory, which a command may have changed, pass on what this one does, or fails. Overlays
// leave their notes in attributes of users, which it removes; it does not know what others mean.
func (a attributes) restore(fd int) error {
	names, err := extendedNames(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, own := a.extended[name]; own || !strings.HasPrefix(name, "user.") {
			continue
		}
		if err := unix.Fremovexattr(fd, name); err != nil {
			return notKept("the attribute %s cannot be removed: %v", name, err)
		}
	}
	now, err := attributesOf(fd)
	if err != nil {
		return err
	}
	if now.flags != a.flags || !maps.Equal(now.extended, a.extended) {
		return notKept("a directory has other attributes")
	}
	return nil
}

func extendedNames(fd int) ([]string, error) {
	size, err := unix.Flistxattr(fd, nil)
	if unsupported(err) || err == nil && size == 0 {
		return nil, nil
	}
	buffer := make([]byte, max(size, 0))
	if err == nil {
		size, err = unix.Flistxattr(fd, buffer)
	}
	if err != nil {
		return nil, fmt.Errorf("read the attributes of a directory: %w", err)
	}
	return strings.FieldsFunc(string(buffer[:size]), func(c rune) bool { return c == 0 }), nil
}

func extended(fd int, name string) (string, error) {
	size, err := unix.Fgetxattr(fd, name, nil)
	buffer := make([]byte, max(size, 0))
	if err == nil && size > 0 {
		size, err = unix.Fgetxattr(fd, name, buffer)
	}
	if err != nil {
		return "", fmt.Errorf("read the attribute %s of a directory: %w", name, err)
	}
	return string(buffer[:size]), nil
}
