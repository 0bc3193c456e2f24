package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	stagingRoot = "/newroot" // the file system under construction
	stagingHost = "/oldroot" // the host's, until it is released
)

// buildFileSystem makes the mounts in the namespaces in which this process was started,
// and makes them its root. It follows bubblewrap: first it pivots to an empty file
// system in memory, so that the work hides no host path.
func buildFileSystem(mounts []mount, overlays []overlay) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	made, err := makeOverlays(overlays)
	if err != nil {
		return err
	}
	if err := pivotToStaging(); err != nil {
		return err
	}
	for _, m := range mounts {
		if fd, ok := made[m.Source]; ok {
			m.FD = fd
		}
		if err := m.make(); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.Kind, m.Target, err)
		}
	}
	if err := unix.Unmount(stagingHost, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the host's file system: %w", err)
	}
	return pivotToFinal()
}

// attachMounts puts prepared mounts over the paths they were made from, where
// bubblewrap finds them. The host sees none of it.
func attachMounts(mounts []mount, overlays []overlay) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	made, err := makeOverlays(overlays)
	if err != nil {
		return err
	}
	for path, fd := range made {
		if err := attach(fd, path); err != nil {
			return fmt.Errorf("attach the overlay of %s: %w", path, err)
		}
	}
	for _, m := range mounts {
		if err := attach(m.FD, m.Source); err != nil {
			return fmt.Errorf("attach %s: %w", m.Source, err)
		}
	}
	return nil
}

func pivotToStaging() error {
	const base = "/tmp" // any directory that every system has; it is free again after the pivot
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m"); err != nil {
		return fmt.Errorf("staging file system: %w", err)
	}
	for _, dir := range []string{stagingRoot, stagingHost} {
		if err := os.Mkdir(base+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(base+stagingRoot, base+stagingRoot, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind staging root: %w", err)
	}
	if err := unix.PivotRoot(base, base+stagingHost); err != nil {
		return fmt.Errorf("pivot to staging: %w", err)
	}
	return os.Chdir("/")
}

// pivotToFinal makes stagingRoot the root and read-only. pivot_root(".", ".")
// stacks the old root on the new one, where one unmount removes it.
func pivotToFinal() error {
	if err := os.Chdir(stagingRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot to the sandbox: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the staging file system: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return setMountAttr("/", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false)
}

func (m mount) make() error {
	target := stagingRoot + m.Target
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	switch m.Kind {
	case mountReadOnly:
		return m.bind(target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	case mountWritable:
		return m.bind(target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	case mountScratch:
		return tmpfs(target, m.Bytes)
	case mountEmpty:
		return emptyDirectory(target)
	case mountSeal:
		return setMountAttr(target, unix.MOUNT_ATTR_RDONLY, false)
	case mountSymlink:
		return os.Symlink(m.Source, target)
	case mountFile:
		return os.WriteFile(target, m.Data, 0o444)
	case mountProgram:
		return os.WriteFile(target, m.Data, 0o555)
	case mountOver:
		return mountFileOver(target, m.Data)
	case mountCopy:
		data, err := os.ReadFile(stagingHost + m.Source)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o444)
	case mountProc:
		return mountProcAt(target)
	case mountDev:
		return mountDevAt(target, m.Bytes)
	}
	return fmt.Errorf("unknown kind")
}

func (m mount) bind(target string, attr uint64) error {
	if m.FD == 0 {
		return bind(m.Source, target, attr)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(m.FD, &stat); err != nil {
		return err
	}
	if err := makeMountPoint(target, stat.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	if err := attach(m.FD, target); err != nil {
		return err
	}
	return setMountAttr(target, attr, true)
}

// bind makes a host path appear at target, with everything mounted below it.
func bind(source, target string, attr uint64) error {
	source = stagingHost + source
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if err := makeMountPoint(target, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return setMountAttr(target, attr, true)
}

// mountFileOver replaces a read-only file by a file of the staging file system, which
// has no name afterwards.
func mountFileOver(target string, data []byte) error {
	file, err := os.CreateTemp("/", "over-")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o444), file.Close()); err != nil {
		return err
	}
	if err := unix.Mount(file.Name(), target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return setMountAttr(target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false)
}

func makeMountPoint(target string, dir bool) error {
	if _, err := os.Lstat(target); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(target, 0o755)
	}
	return os.WriteFile(target, nil, 0o444)
}

// setMountAttr adds attributes and keeps those that the host locked; the older remount
// would have to repeat each of them.
func setMountAttr(target string, attr uint64, recursive bool) error {
	flags := uint(0)
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	return unix.MountSetattr(unix.AT_FDCWD, target, flags, &unix.MountAttr{Attr_set: attr})
}

// emptyBytes is room for the mount points in a mountEmpty.
const emptyBytes = 1 << 20

func emptyDirectory(target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0755,size=%d", emptyBytes))
}

func tmpfs(target string, size int64) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", size))
}

func mountProcAt(target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", target, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	// /proc/sys checks for the host's root by user id, not for a capability.
	return setMountAttr(target, unix.MOUNT_ATTR_RDONLY, false)
}

func mountDevAt(target string, shmBytes int64) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bind("/dev/"+name, target+"/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	if err := mountPtsAt(target + "/pts"); err != nil {
		return err
	}
	if err := tmpfs(target+"/shm", shmBytes); err != nil {
		return err
	}
	links := map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
	for name, to := range links {
		if err := os.Symlink(to, target+"/"+name); err != nil {
			return err
		}
	}
	return setMountAttr(target, unix.MOUNT_ATTR_RDONLY, false)
}

// mountPtsAt gives the sandbox its own terminals, for programs that run others in one.
func mountPtsAt(target string) error {
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	return unix.Mount("devpts", target, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// loopbackUp starts the loopback interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}
