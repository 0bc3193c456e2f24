package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/ext4"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Blobs stores content, such as patches, under its digest, sha256:<hex>.
type Blobs interface {
	// Put stores content and returns its digest. It is idempotent.
	Put(ctx context.Context, content []byte) (digest string, err error)
	// Get returns the content of a digest.
	Get(ctx context.Context, digest string) ([]byte, error)
}

// Defaults of Options.
const (
	// DefaultMaxFileBytes limits each file that a change adds or edits.
	DefaultMaxFileBytes = 100 << 20
	// DefaultMaxChangedFiles limits how many files a change touches.
	DefaultMaxChangedFiles = 50_000
	// DefaultMaxPatchBytes limits a change as a whole: the patch is held in memory when
	// it is stored and applied.
	DefaultMaxPatchBytes = 256 << 20
	// DefaultMaxRepositoryFiles limits how many files a commit may have.
	DefaultMaxRepositoryFiles = 500_000
	// DefaultMaxRepositoryBytes limits how much of a repository is fetched, and the total size of a
	// commit's files.
	DefaultMaxRepositoryBytes = 20 << 30
)

// Options configure a Manager. CacheDir and Blobs are required; any other field that is zero has
// its default, unless it says otherwise.
type Options struct {
	// CacheDir is where mirrors and directories are stored. Processes on one host may share it;
	// hosts must not.
	CacheDir string
	// Blobs stores patches.
	Blobs Blobs
	// Git is the git program; default: the one in PATH.
	Git string
	// MaxFileBytes, MaxChangedFiles and MaxPatchBytes limit what Save accepts, compared
	// with the base.
	MaxFileBytes    int64
	MaxChangedFiles int
	MaxPatchBytes   int64
	// MaxRepositoryFiles and MaxRepositoryBytes limit how large a repository this host accepts.
	MaxRepositoryFiles int64
	MaxRepositoryBytes int64
	// MaxSpareDirs limits the directories of readers, and of ended runs, agents and checks, that are kept for each
	// repository; 0: none are kept, and each reader has one of its own.
	MaxSpareDirs int
	// MinFreeForSpares is the free space, in bytes, below which none are kept but one for readers.
	MinFreeForSpares int64
	// LinkedFolders are directories where repositories on this host may have external data:
	// borrowed objects or separate git directories.
	LinkedFolders []string
	// NetworkEnv (KEY=value) is added to git's clean environment when it connects to another host,
	// for credentials and proxies. Default: the worker's own HOME, SSH_AUTH_SOCK, GIT_ASKPASS,
	// SSH_ASKPASS, GIT_SSH_COMMAND, GIT_SSL_CAINFO, SSL_CERT_FILE and proxy variables.
	NetworkEnv []string
	// Credential returns the user and password with which git connects to an https address, and
	// false if none are known: then those of NetworkEnv apply. Nil: none are known.
	Credential func(ctx context.Context, address string) (user, password string, known bool, err error)
}

// ErrTooLarge is wrapped by Save's error for a change over the limits of Options. The message
// explains what to do and is suitable for a model.
var ErrTooLarge = errors.New("the change is too large")

// Manager turns workspaces into directories and directories into workspaces. It is safe for
// concurrent use by goroutines, and by processes that share a cache.
type Manager struct {
	options Options
	boot    string // identifies this start of the host, see bootID
	locks   *locks
	packs   packs
	listed  listings
	regular *regularDirs
	started atomic.Int64
}

// GitProcesses returns how many git processes this Manager has started, not counting those that git
// starts itself.
func (m *Manager) GitProcesses() int64 { return m.started.Load() }

// New returns a Manager and creates its cache directory.
func New(options Options) (*Manager, error) {
	if options.Blobs == nil || options.CacheDir == "" {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "workspaces need a cache directory and a blob store")
	}
	if options.Git == "" {
		path, err := exec.LookPath("git")
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the git program was not found; install git 2.38 or newer")
		}
		options.Git = path
	}
	dir, err := filepath.Abs(options.CacheDir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		// The sandbox mounts work trees and refuses paths with symbolic links.
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		ext4.SpreadSubdirectories(dir)
		err = os.MkdirAll(filepath.Join(dir, dirsName), 0o755)
	}
	if err != nil {
		return nil, wrapf(err, "cannot use the cache directory %s", options.CacheDir)
	}
	ext4.SpreadSubdirectories(filepath.Join(dir, dirsName)) // they are created and removed by each run
	options.CacheDir = dir
	setDefault(&options.MaxFileBytes, DefaultMaxFileBytes)
	setDefault(&options.MaxChangedFiles, DefaultMaxChangedFiles)
	setDefault(&options.MaxPatchBytes, DefaultMaxPatchBytes)
	setDefault(&options.MaxRepositoryFiles, DefaultMaxRepositoryFiles)
	setDefault(&options.MaxRepositoryBytes, DefaultMaxRepositoryBytes)
	if options.NetworkEnv == nil {
		options.NetworkEnv = workerNetworkEnv()
	}
	return &Manager{options: options, boot: bootID(), locks: newLocks(), regular: newRegularDirs()}, nil
}

func setDefault[T ~int | ~int64](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}

func workerNetworkEnv() []string {
	var env []string
	for _, key := range []string{
		"HOME", "SSH_AUTH_SOCK", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "SSL_CERT_FILE",
		"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// bootID changes when the host restarts. What was written without fsync (work trees, objects of
// runs) is trusted only until the next restart: after a power loss, files may exist but be empty.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "boot"
	}
	return strings.TrimSpace(string(id))
}

// wrapf adds context to an error and keeps its class.
func wrapf(err error, format string, args ...any) error {
	f := fault.Of(err)
	return fault.Wrap(err, f.Class, f.Code, format, args...)
}

// repoFault reports a repository or base that cannot be used, which only the user can fix.
func repoFault(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeRepository, format, args...)
}

// runtimeFault reports a condition that should not occur.
func runtimeFault(format string, args ...any) error {
	return fault.New(contract.ClassRuntime, contract.CodeUnknown, format, args...)
}
