// Package buildcache caches compiled and downloaded files of tools, and isolates runs from each
// other.
//
// Anyone who can write to a build cache controls the code that runs next: the go tool, for example,
// trusts compiled packages in its cache. So a cache has two layers:
//
//   - the base of a repository is filled only by [Store.Fill]: by a compiler that
//
// works on the base commit of a run, before any change by an agent, while no code of the repository
// runs. All commands can read it, none can
//
//	  write to it;
//	- the layer above belongs to one use (an agent in a run, a check of an
//
// execution) and is removed with it. Files that hostile code leaves in it are
//
//	read only by the same use.
//
// Everything here can be removed and rebuilt.
package buildcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/dirlock"
	"github.com/rocketgpt/orchestrator/internal/ext4"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Store is a directory of caches. Several processes of a host may share it.
type Store struct{ root string }

// At returns the store in a directory, which need not exist yet.
func At(dir string) Store { return Store{root: dir} }

// Cache is the part of the store that one use can access. It must be closed: until then, none of it
// is swept.
type Cache struct {
	goCache sandbox.GoCache
	files   string
	entries []*dirlock.Lock
	own     string // the layer's directory
}

// Open creates the layer of a use within a run, such as "builder" or "7/test-go-1", on top of the
// base of the repository. A later use with the same name finds the earlier files.
func (s Store) Open(repo string, run int64, use string) (*Cache, error) {
	if !filepath.IsLocal(use) {
		return nil, fmt.Errorf("build cache: invalid layer name %q", use)
	}
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	c := &Cache{}
	runs := filepath.Join(root, "runs")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	ext4.SpreadSubdirectories(runs) // they are created and removed by each run
	of := filepath.Join(runs, strconv.FormatInt(run, 10))
	base := filepath.Join(root, "repos", repoName(repo))
	for _, dir := range []string{of, base} {
		entry, err := hold(dir)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.entries = append(c.entries, entry)
	}
	c.own = filepath.Join(of, use)
	// Sandboxed commands write to both, but not to their parents, so no component of their paths
	// can be replaced by a link.
	c.goCache = sandbox.GoCache{Base: filepath.Join(base, "go"), Dir: filepath.Join(c.own, "go")}
	c.files = filepath.Join(c.own, "files")
	for _, dir := range []string{c.goCache.Base, c.goCache.Dir, c.files} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			c.Close()
			return nil, fmt.Errorf("build cache: %w", err)
		}
	}
	return c, nil
}

// open returns the root without symbolic links, as the sandbox requires.
func (s Store) open() (string, error) {
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return "", fmt.Errorf("build cache: %w", err)
	}
	root, err := filepath.EvalSymlinks(s.root)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return "", fmt.Errorf("build cache: %w", err)
	}
	return root, nil
}

func repoName(repo string) string {
	sum := sha256.Sum256([]byte(repo))
	return hex.EncodeToString(sum[:8])
}

// Inside is the path at which a command sees its own layer.
const Inside = "/var/cache/build"

// Give gives a command access to the cache.
func (c *Cache) Give(command *sandbox.Command) {
	if command.Env == nil {
		command.Env = map[string]string{}
	}
	command.GoCache = c.goCache
	command.Mounts = append(command.Mounts, sandbox.Mount{Host: c.files, Inside: Inside, Writable: true})
	for name, dir := range map[string]string{"npm_config_cache": "npm", "PIP_CACHE_DIR": "pip", "PYTHONPYCACHEPREFIX": "python"} {
		command.Env[name] = path.Join(Inside, dir)
	}
}

// Home returns the directories that commands of the use see as their home and /tmp. Commands with
// the same key, such as the attempt of a step, share them while the layer exists.
func (c *Cache) Home(key string) (home, tmp string, err error) {
	if !filepath.IsLocal(key) {
		return "", "", fmt.Errorf("build cache: invalid home name %q", key)
	}
	at := filepath.Join(c.own, "homes", strings.ReplaceAll(key, string(filepath.Separator), "+"))
	home, tmp = filepath.Join(at, "home"), filepath.Join(at, "tmp")
	for _, dir := range []string{home, tmp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", "", fmt.Errorf("build cache: %w", err)
		}
	}
	return home, tmp, nil
}

// Close ends the use. The layer is kept for the next use with the same name.
func (c *Cache) Close() {
	for _, entry := range c.entries {
		entry.Release()
	}
	c.entries = nil
}

// Discard removes the layer and ends the use.
func (c *Cache) Discard() error {
	defer c.Close()
	return removeTree(c.own)
}

// Fill calls compile to add to a repository's base, once per key and one call at a time; other
// callers wait. compile receives the directory to fill, and must run only compilers, and only on
// files that no agent wrote. A failed compilation is not retried for the same key; its output is
// kept.
func (c *Cache) Fill(ctx context.Context, key string, compile func(ctx context.Context, dir string) error) error {
	dir := c.goCache.Base
	done := filepath.Join(filepath.Dir(dir), "filled")
	if isFilled(done, key) {
		return nil
	}
	lock, err := os.OpenFile(done+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("build cache: %w", err)
	}
	defer lock.Close()
	if err := await(ctx, lock); err != nil {
		return err
	}
	if isFilled(done, key) {
		return nil
	}
	err = compile(ctx, dir)
	if ctx.Err() != nil {
		return fmt.Errorf("build cache: %w", errors.Join(context.Cause(ctx), err))
	}
	known := append(filled(done), key)
	known = known[max(0, len(known)-keptKeys):]
	return errors.Join(err, os.WriteFile(done, []byte(strings.Join(known, "\n")), 0o600))
}

// keptKeys is the number of keys that a base records.
const keptKeys = 50

func filled(file string) []string {
	content, _ := os.ReadFile(file)
	return strings.Fields(string(content))
}

func isFilled(file, key string) bool { return slices.Contains(filled(file), key) }

// lockPoll is the interval for checking a lock that another process holds: flock does not support
// waiting with a context.
const lockPoll = 20 * time.Millisecond

func await(ctx context.Context, lock *os.File) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("build cache: wait for another process to fill it: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// hold marks a directory as just used and locks it against the sweep, which may remove the
// directory while it is being opened.
func hold(dir string) (*dirlock.Lock, error) {
	const tries = 100
	for range tries {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("build cache: %w", err)
		}
		lock, err := dirlock.Use(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("build cache: %w", err)
		}
		now := time.Now()
		return lock, os.Chtimes(dir, now, now)
	}
	return nil, fmt.Errorf("build cache: %s keeps being removed", dir)
}
