package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// helperPath is the path of the worker's own binary in the sandbox, for the single exec that makes
// it process 1.
const helperPath = "/run/sandbox/helper"

// mount is one step in building the file system of a sandbox.
type mount struct {
	Kind   mountKind
	Source string // host path, or the target of a symlink
	Target string // path in the sandbox
	Bytes  int64  // size of a tmpfs
	Data   []byte // content of a file
	FD     int    // for stageAttach: descriptor of a mapped mount to use instead of Source
}

type mountKind string

const (
	mountReadOnly mountKind = "ro"      // host path, read-only
	mountPrepared mountKind = "shared"  // the same for a directory that this package has prepared
	mountWritable mountKind = "rw"      // host path, writable
	mountScratch  mountKind = "tmpfs"   // empty directory in memory
	mountSymlink  mountKind = "symlink" // symbolic link
	mountFile     mountKind = "file"    // small file with given content
	mountProgram  mountKind = "program" // the same, executable
	mountOver     mountKind = "over"    // small file with given content, replacing an existing one
	mountProc     mountKind = "proc"    // /proc of the sandbox's own processes
	mountDev      mountKind = "dev"     // minimal /dev
	mountEmpty    mountKind = "empty"   // empty directory that hides the existing one, closed by mountSeal
	mountSeal     mountKind = "seal"    // makes a mountEmpty read-only after everything below it is mounted
)

// systemDirs contain programs and libraries. On merged-/usr systems, all but the first are symbolic
// links and are recreated as links.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// The files of /etc that a command can see. It is an allow list: the sensitive contents (shadow,
// host keys, tokens of package managers, Kubernetes credentials) differ from host to host and
// cannot be enumerated.
var (
	etcDirs = []string{
		"alternatives", "chromium", "chromium.d", "crypto-policies", "fonts", "java-11-openjdk", "java-17-openjdk",
		"java-21-openjdk", "ld.so.conf.d", "maven/logging", "pki/ca-trust/extracted", "pki/tls/certs", "python3", "python3.11", "ssl/certs",
	}
	etcFiles = []string{
		"bash.bashrc", "debian_version", "gai.conf", "host.conf", "inputrc", "ld.so.cache", "ld.so.conf", "localtime",
		"locale.alias", "lsb-release", "maven/m2.conf", "mime.types", "networks", "nsswitch.conf", "os-release", "protocols",
		"services", "ssl/openssl.cnf", "timezone",
	}
)

// etcFileBytes limits the size of a file of /etc that is copied.
const etcFileBytes = 1 << 20

// layout lists the mounts for a command in the order in which they are created.
func layout(s *session) ([]mount, error) {
	c, scratch := s.command, s.command.Limits.scratch()
	mounts := slices.Concat(s.system, []mount{
		{Kind: mountProc, Target: "/proc"},
		{Kind: mountDev, Target: "/dev", Bytes: scratch},
		directory(c.Tmp, tmp, scratch),
		directory(c.Home, Home, scratch),
		{Kind: mountSymlink, Source: tmp, Target: "/var/tmp"},
		{Kind: mountReadOnly, Source: s.executable, Target: helperPath},
	})
	if canMapUsers() && s.mapped == nil {
		mounts = append(mounts, maskedMounts()...)
	}
	trust, err := trustMounts(c)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, trust...)
	mounts = append(mounts, extraMounts(c, s.toolchains)...)
	return append(mounts, mount{Kind: mountWritable, Source: c.Root, Target: Workspace}), nil
}

// directory mounts a directory of the host or, without one, a directory in memory.
func directory(host, inside string, bytes int64) mount {
	if host == "" {
		return mount{Kind: mountScratch, Target: inside, Bytes: bytes}
	}
	return mount{Kind: mountWritable, Source: host, Target: inside}
}

// systemDirMounts mounts the directories of programs and libraries.
func systemDirMounts() []mount {
	var mounts []mount
	for _, dir := range systemDirs {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			if target, err := os.Readlink(dir); err == nil {
				mounts = append(mounts, mount{Kind: mountSymlink, Source: target, Target: dir})
			}
		case info.IsDir():
			mounts = append(mounts, mount{Kind: mountReadOnly, Source: dir, Target: dir})
		}
	}
	return mounts
}

// maskedFiles expose the kernel and memory pages of other users. The kernel restricts them to the
// host's root user id, which a command has if the worker is root and the file system of the
// workspace cannot be mapped (see user.go).
var maskedFiles = []string{"kpagecgroup", "kpagecount", "kpageflags", "slabinfo"}

// maskedMounts hides them behind a device that cannot be opened in the sandbox.
func maskedMounts() []mount {
	var mounts []mount
	for _, name := range maskedFiles {
		path := filepath.Join("/proc", name)
		if _, err := os.Lstat(path); err == nil {
			mounts = append(mounts, mount{Kind: mountReadOnly, Source: "/dev/null", Target: path})
		}
	}
	return mounts
}

// identityFiles define the sandbox user and contain no users of the host.
func identityFiles() []mount {
	return []mount{
		{Kind: mountFile, Target: "/etc/passwd", Data: []byte("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n" +
			"sandbox:x:1000:1000:sandbox:" + Home + ":/bin/sh\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")},
		{Kind: mountFile, Target: "/etc/group", Data: []byte("root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n")},
		{Kind: mountFile, Target: "/etc/hosts", Data: []byte("127.0.0.1 localhost sandbox\n::1 localhost\n")},
		{Kind: mountFile, Target: "/etc/hostname", Data: []byte("sandbox\n")},
		// There is no name server in the sandbox, and the host's name servers are private.
		{Kind: mountFile, Target: "/etc/resolv.conf"},
	}
}

// extraMounts returns the toolchains and the caller's mounts, parents before children.
func extraMounts(c Command, toolchains []mount) []mount {
	mounts := slices.Clone(toolchains)
	for _, m := range c.Mounts {
		switch {
		case m.Writable:
			mounts = append(mounts, mount{Kind: mountWritable, Source: m.Host, Target: m.Inside})
		case m.Host != m.Inside || !visibleAnyway(m.Host):
			mounts = append(mounts, mount{Kind: mountReadOnly, Source: m.Host, Target: m.Inside})
		}
	}
	slices.SortStableFunc(mounts, func(a, b mount) int { return strings.Compare(a.Target, b.Target) })
	mounts = slices.CompactFunc(mounts, func(a, b mount) bool { return a.Target == b.Target })
	for _, m := range slices.Clone(mounts) {
		if m.Kind == mountEmpty {
			mounts = append(mounts, mount{Kind: mountSeal, Target: m.Target})
		}
	}
	return mounts
}

// movedPaths returns the mounts that show a path of the host elsewhere, as far as commands know of it.
func movedPaths(c Command, toolchains []mount) []mount {
	return slices.DeleteFunc(extraMounts(c, toolchains), func(m mount) bool {
		return m.Kind != mountReadOnly && m.Kind != mountWritable || m.Source == m.Target || within(m.Target, packagesInside)
	})
}

func visibleAnyway(path string) bool {
	return slices.ContainsFunc(systemDirs, func(dir string) bool { return within(path, dir) })
}

// writablePaths returns the paths to which Landlock, the second layer, allows a command to write,
// regardless of the mounts.
func writablePaths(c Command) []string {
	paths := []string{Workspace, tmp, Home}
	for _, m := range c.Mounts {
		if m.Writable {
			paths = append(paths, m.Inside)
		}
	}
	return paths
}
