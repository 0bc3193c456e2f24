// Package buildcache stores what tools compiled and fetched, so that it need not
// be done again, and isolates the runs from each other.
//
// Anyone who can write to a build cache controls what runs next: the go tool, for
// one, trusts a compiled package from there. So a cache has two layers:
//
//   - the base of a repository is filled only by [Store.Fill]: by a compiler that
//     works on a commit which a run started from, before any agent's change,
//     while no code of the repository runs. All commands read it, none can
//     write to it;
//   - the layer above belongs to one use (an agent in a run, a check of an
//     execution) and is removed with it. What hostile code leaves there is
//     read only by the same use.
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
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Store is a directory of caches. Several processes of a host may share it.
type Store struct{ root string }

// At returns the store in a directory, which need not exist yet.
func At(dir string) Store { return Store{root: dir} }

// Cache is what one use of the store gets. It must be closed: until then nothing of it
// is swept.
type Cache struct {
	goCache sandbox.GoCache
	files   string
	entries []*dirlock.Lock
	own     string // the layer's directory
}

// Open makes the layer of a use within a run, such as "builder" or "7/test-go-1", over
// the base of the repository. The same use finds what it left.
func (s Store) Open(repo string, run int64, use string) (*Cache, error) {
	if !filepath.IsLocal(use) {
		return nil, fmt.Errorf("build cache: %q is not a valid name for a layer", use)
	}
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	c := &Cache{}
	of := filepath.Join(root, "runs", strconv.FormatInt(run, 10))
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
	// Both are written to from inside sandboxes; their parents are not, so that no path
	// to them can be turned into a link.
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

// Inside is where a command finds the files of its own layer.
const Inside = "/var/cache/build"

// Give lets a command use the cache.
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

// Home returns the folders that commands of the use see as their home and as /tmp, as
// long as the layer exists: commands of one key, such as the attempt of a step, share
// them.
func (c *Cache) Home(key string) (home, tmp string, err error) {
	if !filepath.IsLocal(key) {
		return "", "", fmt.Errorf("build cache: %q is not a valid name for a home", key)
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

// Close ends the use. The layer stays for the next one of the same name.
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

// Fill lets compile add to a repository's base, once for each key and one at a time;
// others wait. compile gets the directory to fill, and must run nothing but compilers,
// on nothing that an agent wrote. A failed compilation is not tried again for the same
// key; what it did compile stays.
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

// keptKeys is how many keys a base remembers.
const keptKeys = 50

func filled(file string) []string {
	content, _ := os.ReadFile(file)
	return strings.Fields(string(content))
}

func isFilled(file, key string) bool { return slices.Contains(filled(file), key) }

// lockPoll is how often to check a lock that another process holds: flock does not
// support waiting with a context.
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

// hold marks a directory as used now and locks it against the sweep, which may remove
// it just as it is opened.
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
