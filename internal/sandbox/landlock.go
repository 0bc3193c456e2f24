package sandbox

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// landlockMinimum is the first version that can allow renames between directories, which most build
// tools need.
const landlockMinimum = 2

// landlockRules are the paths in the sandbox that the second layer allows.
type landlockRules struct {
	ReadOnly []string
	Writable []string
}

// landlockVersion returns the kernel's Landlock version, or 0 for none.
func landlockVersion() int {
	version, err := landlocksys.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// restrictFiles allows reading below rules.ReadOnly and writing below rules.Writable, for all
// threads of this process and everything it starts. It also prevents them from signalling processes
// outside the sandbox and from connecting to the abstract unix sockets of those processes. Ports
// are not restricted: the network namespace controls the network, and servers under test must
// listen.
func restrictFiles(rules landlockRules) error {
	config := landlock.V9
	config.HandledAccessNet = 0
	dirs, files := splitByKind(rules.ReadOnly)
	err := config.BestEffort().Restrict(
		landlock.RODirs(dirs...),
		landlock.ROFiles(files...),
		landlock.RWDirs(rules.Writable...).WithRefer().WithResolveUnix(),
		landlock.RWDirs("/dev/shm", "/dev/pts").WithIoctlDev().IgnoreIfMissing(),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx").
			WithIoctlDev().IgnoreIfMissing(),
	)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// splitByKind separates directories from files, because the kernel rejects directory rules for
// files. A path that does not exist needs no rule.
func splitByKind(paths []string) (dirs, files []string) {
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			dirs = append(dirs, path)
		default:
			files = append(files, path)
		}
	}
	return dirs, files
}
