package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A base appears below Root or Home through overlayfs: the base is the lower layer, the directory
// of the command is the upper one. Overlayfs opens layers by path and clones their mounts for
// itself, so the command cannot write to the base through the overlay, and once the overlay exists,
// no path in the sandbox leads to the base. The overlay is created inside the user namespace of the
// sandbox. It therefore stores its metadata in user attributes (userxattr) and does not follow
// redirects.

// OverlayPrefix is the name prefix of the directory next to an upper directory in which overlayfs
// prepares its changes.
const OverlayPrefix = ".rgpt-overlay-"

// overlay is a merged directory for the child to create.
type overlay struct {
	Target string // host path of the upper directory, which the overlay replaces
	Base   string // host path of the lower directory
	// ParentFD and BaseFD are mapped mounts of the directory that contains the upper directory, and
	// of the base: 0 if the child opens the paths. Upper and work directory must be on one mount.
	ParentFD, BaseFD int
}

// overlayError reports that the kernel or a file system refused an overlay.
type overlayError struct{ err error }

func (e *overlayError) Error() string { return "overlay: " + e.err.Error() }
func (e *overlayError) Unwrap() error { return e.err }

func workDirectory(upper string) string {
	return filepath.Join(filepath.Dir(upper), OverlayPrefix+filepath.Base(upper))
}

// bases returns the pairs of upper directory and base.
func (c Command) bases() [][2]string {
	var pairs [][2]string
	for _, pair := range [][2]string{{c.Root, c.WorkspaceBase}, {c.Home, c.HomeBase}} {
		if pair[1] != "" {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// prepareOverlays creates the work directories and, if the command's user is mapped, the mounts of
// the layers.
func (s *session) prepareOverlays() error {
	for _, pair := range s.command.bases() {
		o := overlay{Target: pair[0], Base: pair[1]}
		if err := s.makeWorkDirectory(o.Target); err != nil {
			return &overlayError{err}
		}
		if s.mapped != nil {
			for _, layer := range []struct {
				path, like string
				fd         *int
			}{{filepath.Dir(o.Target), o.Target, &o.ParentFD}, {o.Base, o.Base, &o.BaseFD}} {
				file, err := mappedMount(layer.path, layer.like)
				if err != nil {
					return &overlayError{fmt.Errorf("map users for %s: %w", layer.path, err)}
				}
				*layer.fd = s.pass(file)
				if layer.path != o.Base && !sameFile(file, o.Target) {
					return &overlayError{fmt.Errorf("%s is a mount point", o.Target)}
				}
			}
		}
		s.overlays = append(s.overlays, o)
	}
	s.config.Overlays = s.overlays
	return nil
}

// sameFile reports whether the path's last name, in a mount of its parent directory, refers to the
// same file as the path.
func sameFile(parent *os.File, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(int(parent.Fd()), filepath.Base(path), &a, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unix.Stat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

func (s *session) makeWorkDirectory(upper string) error {
	var stat unix.Stat_t
	if err := unix.Stat(upper, &stat); err != nil {
		return err
	}
	work := workDirectory(upper)
	// A killed worker may have left one behind.
	if err := RemoveWorkDirectory(work); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	s.onClose(func() { _ = RemoveWorkDirectory(work) })
	if int(stat.Uid) == unix.Geteuid() && int(stat.Gid) == unix.Getegid() {
		return nil
	}
	return os.Lchown(work, int(stat.Uid), int(stat.Gid))
}

// RemoveWorkDirectory removes the directory that overlayfs created without permissions: a non-root
// user must change its mode first.
func RemoveWorkDirectory(work string) error {
	if os.RemoveAll(work) == nil {
		return nil
	}
	_ = filepath.WalkDir(work, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(work)
}

// attachOverlays mounts an overlay over each upper directory.
func attachOverlays(overlays []overlay) error {
	for _, o := range overlays {
		fd, err := o.make()
		if err != nil {
			return &overlayError{fmt.Errorf("%s: %w", filepath.Base(o.Target), err)}
		}
		if err := attach(fd, o.Target); err != nil {
			return fmt.Errorf("attach the overlay for %s: %w", o.Target, err)
		}
	}
	return nil
}

// make returns a detached mount. It passes the layers as descriptors, so the kernel does not
// interpret special characters in paths, and no path appears in the list of mounts. It must stay on
// one thread.
func (o overlay) make() (int, error) {
	parent, base, done, err := o.layers()
	if err != nil {
		return 0, err
	}
	defer done()
	name := filepath.Base(o.Target)
	upper, err := openPath(parent, name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(upper) }()
	work, err := openPath(parent, OverlayPrefix+name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(work) }()
	if o.ParentFD != 0 {
		// Files that overlayfs creates belong to the mounting user, which must be the owner of the
		// layers, the only mapped user.
		back, err := becomeOwner()
		if err != nil {
			return 0, err
		}
		defer back()
	}
	return mountOverlay(base, upper, work)
}

// layers opens the directories on mounts of this namespace, because older kernels accept only these
// as layers.
func (o overlay) layers() (parent, base int, done func(), err error) {
	if o.ParentFD == 0 {
		if parent, err = openPath(unix.AT_FDCWD, filepath.Dir(o.Target)); err != nil {
			return 0, 0, nil, err
		}
		if base, err = openPath(unix.AT_FDCWD, o.Base); err != nil {
			_ = unix.Close(parent)
			return 0, 0, nil, err
		}
		return parent, base, func() { _, _ = unix.Close(parent), unix.Close(base) }, nil
	}
	const place = "/tmp" // any directory that exists on every system; unmounted afterwards
	if err := unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=1m"); err != nil {
		return 0, 0, nil, fmt.Errorf("mount the staging file system: %w", err)
	}
	done = func() { _ = unix.Unmount(place, unix.MNT_DETACH) }
	for name, fd := range map[string]int{"parent": o.ParentFD, "base": o.BaseFD} {
		path := filepath.Join(place, name)
		if err = os.Mkdir(path, 0o700); err == nil {
			err = attach(fd, path)
		}
		if err != nil {
			done()
			return 0, 0, nil, fmt.Errorf("attach a layer: %w", err)
		}
	}
	return o.ParentFD, o.BaseFD, done, nil
}

func openPath(dir int, path string) (int, error) {
	fd, err := unix.Openat(dir, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}

// becomeOwner makes this thread create files as the command's user while it keeps root's rights in
// this namespace.
func becomeOwner() (back func(), err error) {
	if err := unix.Setfsgid(uid); err != nil {
		return nil, fmt.Errorf("change the group for file access: %w", err)
	}
	if err := unix.Setfsuid(uid); err != nil {
		return nil, fmt.Errorf("change the user for file access: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return nil, fmt.Errorf("read capabilities: %w", err)
	}
	for i := range caps {
		caps[i].Effective = caps[i].Permitted
	}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return nil, fmt.Errorf("retain capabilities: %w", err)
	}
	return func() { _, _ = unix.Setfsuid(0), unix.Setfsgid(0) }, nil
}

func mountOverlay(base, upper, work int) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("the kernel does not support overlayfs: %w", err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, layer := range []struct {
		name string
		fd   int
	}{{"lowerdir", base}, {"upperdir", upper}, {"workdir", work}} {
		if err := unix.FsconfigSetString(fs, layer.name, "/proc/self/fd/"+strconv.Itoa(layer.fd)); err != nil {
			return 0, fmt.Errorf("%s: %w%s", layer.name, err, kernelSays(fs))
		}
	}
	// index=off: an upper directory can be reused immediately with a new work directory. volatile:
	// a finished command does not wait for the disk.
	if err := unix.FsconfigSetString(fs, "index", "off"); err != nil {
		return 0, fmt.Errorf("index=off: %w%s", err, kernelSays(fs))
	}
	for _, flag := range []string{"userxattr", "volatile"} {
		if err := unix.FsconfigSetFlag(fs, flag); err != nil {
			return 0, fmt.Errorf("%s: %w%s", flag, err, kernelSays(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return 0, fmt.Errorf("mount: %w%s", err, kernelSays(fs))
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// kernelSays returns the kernel's message about a refused mount.
func kernelSays(fs int) string {
	buffer := make([]byte, 512)
	n, err := unix.Read(fs, buffer)
	if err != nil || n <= 0 {
		return ""
	}
	return " (" + string(buffer[:n]) + ")"
}

// writes returns the host directories that grow when the command writes.
func (s *session) writes() []string {
	paths := s.command.writable()
	for _, o := range s.overlays {
		paths = append(paths, workDirectory(o.Target))
	}
	return paths
}

// memoryDirs returns the sandbox's in-memory directories.
func (s *session) memoryDirs() []string {
	dirs := []string{"/dev/shm"}
	if s.command.Tmp == "" {
		dirs = append(dirs, tmp)
	}
	if s.command.Home == "" {
		dirs = append(dirs, Home)
	}
	return dirs
}
