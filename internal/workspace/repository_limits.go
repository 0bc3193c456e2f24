package workspace

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// fetchTick is the interval between measurements of a fetch.
const fetchTick = 500 * time.Millisecond

// tooLargeHere is the error for a repository that this host does not accept.
func (r *mirror) tooLargeHere(what, setting string) error {
	return fault.New(contract.ClassConfig, contract.CodeTooLarge, "%s %s (%s)", r.source, what, setting)
}

// fitsHost rejects a commit's tree with more files, or more bytes, than this host checks out. A few
// kilobytes of a repository can expand to any number of either.
func (r *mirror) fitsHost(ctx context.Context, tree string) error {
	o := r.m.options
	count := &treeCounter{files: o.MaxRepositoryFiles, bytes: o.MaxRepositoryBytes}
	_, err := r.runDurable(ctx, call{stdout: count, args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", tree}})
	switch {
	case count.files < 0:
		return r.tooLargeHere("has more than "+strconv.FormatInt(o.MaxRepositoryFiles, 10)+" files at this commit", "git.max_files")
	case count.bytes < 0:
		return r.tooLargeHere("takes up more than "+strconv.FormatInt(o.MaxRepositoryBytes>>20, 10)+" MiB at this commit", "git.max_size")
	case err != nil:
		return localFault(err, "cannot list the files of %s", r.source)
	}
	return nil
}

// treeCounter reads what ls-tree -l -z prints: "<mode> <type> <object>
// <size>\t<path>\0", and counts down.
type treeCounter struct {
	files, bytes int64
	rest         []byte // of an incomplete entry
}

// Write returns an error, which stops git, once a limit is exceeded.
func (c *treeCounter) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		entry, more, whole := bytes.Cut(c.rest, []byte{0})
		if !whole {
			return len(p), nil
		}
		c.rest = more
		head, _, _ := bytes.Cut(entry, []byte{'\t'})
		c.files--
		if fields := bytes.Fields(head); len(fields) == 4 {
			size, _ := strconv.ParseInt(string(fields[3]), 10, 64) // "-" for a submodule
			c.bytes -= size
		}
		if c.files < 0 || c.bytes < 0 {
			return 0, errOutputLimit
		}
	}
}

// bounded returns a context that is canceled once the mirror's packs exceed this host's size limit
// for a repository; large then reports true. stop ends the measurement.
func (r *mirror) bounded(ctx context.Context) (within context.Context, large func() bool, stop func()) {
	within, cancel := context.WithCancel(ctx)
	done, over := make(chan struct{}), false
	go func() {
		defer close(done)
		tick := time.NewTicker(fetchTick)
		defer tick.Stop()
		for {
			select {
			case <-within.Done():
				return
			case <-tick.C:
				if r.packs() > r.m.options.MaxRepositoryBytes {
					over = true
					cancel()
					return
				}
			}
		}
	}()
	return within, func() bool { <-done; return over }, cancel
}

// packs returns the size of the mirror's packs, including those being received.
func (r *mirror) packs() (total int64) {
	entries, _ := os.ReadDir(filepath.Join(r.gitDir(), "objects", "pack"))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

// removeStalePacks removes packs that a killed fetch left behind.
func removeStalePacks(gitDir string) {
	files, _ := filepath.Glob(filepath.Join(gitDir, "objects", "pack", "tmp_*"))
	for _, file := range files {
		_ = os.Remove(file)
	}
}
