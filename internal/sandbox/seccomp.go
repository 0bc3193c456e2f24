package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// deniedCalls fail with EPERM, as for an unprivileged user. Builds and tests do not need them, and
// many kernel exploits start with one of them.
var deniedCalls = []string{
	// other processes
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
	// namespaces and mounts
	"unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr",
	"fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at", "quotactl", "quotactl_fd",
	// the machine
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "reboot",
	"swapon", "swapoff", "acct", "syslog", "vhangup", "iopl", "ioperm", "nfsservctl", "lookup_dcookie", "_sysctl",
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "stime", "sethostname", "setdomainname",
	// large kernel interfaces with a history of vulnerabilities
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "vm86", "vm86old", "modify_ldt",
	"io_uring_setup", "io_uring_enter", "io_uring_register", "fanotify_init",
	// memory that no counter includes
	"memfd_secret",
}

// missingCalls fail with ENOSYS. clone3 passes its flags in memory, which a filter cannot inspect;
// libraries then fall back to clone, which a filter can inspect.
var missingCalls = []string{"clone3"}

const (
	newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	denied  = seccomp.ActionErrno | seccomp.Action(unix.EPERM)
	missing = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
)

// installSeccomp loads the filter for all threads of this process and everything it starts. With
// denyNetwork, used without a network namespace, all sockets except unix sockets also fail.
func installSeccomp(denyNetwork bool) error {
	program, err := seccompProgram(denyNetwork)
	if err != nil {
		return err
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return fmt.Errorf("assemble seccomp filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("load seccomp filter: %w", errno)
	}
	return nil
}

// seccompProgram adds its own checks before the library's. The library knows the numbers of system
// calls, but does not filter calls of another architecture (32-bit calls on amd64), and compares 64
// bits of arguments where the kernel reads only 32, so a set upper bit would bypass the filter.
func seccompProgram(denyNetwork bool) ([]bpf.Instruction, error) {
	native, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{Names: known(native, deniedCalls), Action: denied},
			{Names: known(native, missingCalls), Action: missing},
		},
	}
	rest, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("assemble seccomp policy: %w", err)
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(native.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(missing)},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		// Calls newer than the library's table may be harmful.
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: newestCall(native), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(missing)},
	}
	program = append(program, onCall(native, "clone", denyBits(0, newNamespaces))...)
	program = append(program, onCall(native, "ioctl", ioctlChecks())...)
	program = append(program, onCall(native, "socket", socketChecks(denyNetwork))...)
	program = append(program, onCall(native, "shmget", denyAbove(1, segmentBytes))...)
	program = append(program, onCall(native, "socketpair", denyUnless(0, unix.AF_UNIX))...)
	return append(program, rest...), nil
}

// segmentBytes is the largest segment of System V shared memory, whose size is not visible from
// outside. Databases use a segment of a few bytes to detect a second instance; the maximum of 4096
// segments per namespace adds up to 64 MiB.
const segmentBytes = 16 << 10

const (
	// tiocLinux, like TIOCSTI, injects input into a terminal.
	tiocLinux = 0x541C
	// EXT4_IOC_MOVE_EXT and XFS_IOC_SWAPEXT, for defragmentation, exchange the content of two files
	// without changing their times. See Process.Traceable.
	ext4MoveExtents = 0xC028660F
	xfsSwapExtents  = 0xC0C0586D
	// FS_IOC_ENABLE_VERITY makes a file read-only for ever, also without changing its times.
	enableVerity = 0x40806685
)

func ioctlChecks() []bpf.Instruction {
	var checks []bpf.Instruction
	for _, request := range []uint32{unix.TIOCSTI, tiocLinux, ext4MoveExtents, xfsSwapExtents, enableVerity} {
		checks = append(checks, denyValue(1, request)...)
	}
	return checks
}

// Offsets in struct seccomp_data, little endian.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func loadArg(n uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArgs + 8*n, Size: 4}
}

// onCall runs checks for the named call and then reloads the call number for the next check.
func onCall(native *arch.Info, name string, checks []bpf.Instruction) []bpf.Instruction {
	number, ok := native.SyscallNames[name]
	if !ok {
		return nil
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(checks))},
	}
	return append(program, checks...)
}

func denyBits(arg, bits uint32) []bpf.Instruction {
	return []bpf.Instruction{loadArg(arg), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: bits, SkipTrue: 1}, deny()}
}

func denyValue(arg, value uint32) []bpf.Instruction {
	return []bpf.Instruction{loadArg(arg), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: 1}, deny()}
}

// denyAbove denies larger values of a 64-bit argument.
func denyAbove(arg, most uint32) []bpf.Instruction {
	const upper = 4 // bytes from an argument's lower half to its upper one
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArgs + 8*arg + upper, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, deny(),
		loadArg(arg), bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: most, SkipTrue: 1}, deny(),
	}
}

// denyUnless allows only the given values of an argument.
func denyUnless(arg uint32, values ...uint32) []bpf.Instruction {
	program := []bpf.Instruction{loadArg(arg)}
	for i, v := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return append(program, deny())
}

func deny() bpf.Instruction { return bpf.RetConstant{Val: uint32(denied)} }

// socketChecks allow unix and internet sockets, and the one netlink protocol with which libraries
// list network interfaces. Raw sockets, packet, vsock and the many historical families fail.
func socketChecks(denyNetwork bool) []bpf.Instruction {
	if denyNetwork {
		return denyUnless(0, unix.AF_UNIX)
	}
	netlink := denyUnless(2, unix.NETLINK_ROUTE)
	rawType := []bpf.Instruction{
		loadArg(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_RAW, SkipTrue: 1},
		deny(),
	}
	families := denyUnless(0, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	return slices.Concat(families,
		[]bpf.Instruction{loadArg(0), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: uint8(len(netlink))}}, netlink,
		[]bpf.Instruction{loadArg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: uint8(len(rawType) + 1)},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipTrue: uint8(len(rawType))}}, rawType)
}

// known drops the names that do not exist on this architecture.
func known(native *arch.Info, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, ok := native.SyscallNames[name]
		return !ok
	})
}

func newestCall(native *arch.Info) uint32 {
	newest := 0
	for number := range native.SyscallNumbers {
		newest = max(newest, number)
	}
	return uint32(newest)
}
