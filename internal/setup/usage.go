package setup

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// HostUsage is the disk space that one kind of data takes on this host.
type HostUsage struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Limit   int64  `json:"limit_bytes,omitempty"`
	Removed string `json:"removed"` // what removes it, and when
}

// UsageOfHost returns what the data folder of this host contains besides what a clean-up deletes, and who
// removes it. Kinds of which there is nothing are left out, and so are files that this user cannot read.
func UsageOfHost(ctx context.Context, cfg *config.Config, dataDir string) ([]HostUsage, error) {
	e, s := cfg.Environment, cfg.Execution.Sandbox
	cache := filepath.Join(dataDir, "cache")
	kinds := []HostUsage{
		{"working directories", filepath.Join(cache, "dirs"), 0, 0, "by the worker, when their run has ended"},
		{"working directories for readers and for later runs", filepath.Join(cache, "spares"), 0, 0, "by the worker, after " + days(CacheAge) + " without use (worker.spare_directories, spare_free)"},
		{"repositories", filepath.Join(cache, "repos"), 0, 0, "by the worker, after " + days(CacheAge) + " without use"},
		{"unpacked environments", filepath.Join(cache, "environments"), 0, e.Disk.Int64(), "by the worker, after " + days(e.Age) + " without use (environment.age, disk, count)"},
		{"downloads of setups", filepath.Join(cache, "downloads"), 0, e.Disk.Int64() / downloadsShare, "by the worker, after " + days(e.Age) + " without use"},
		{"files of the system that commands see", filepath.Join(cache, "system"), 0, 0, "by the worker, after " + days(sandbox.PreparedAge) + " without use"},
		{"build caches", filepath.Join(cache, "build"), 0, s.CacheSize.Int64(), "by the worker, after " + days(s.CacheAge) + " without use (execution.sandbox.cache_age, cache_size)"},
	}
	if cfg.Artifacts.URL == "" {
		kinds = append(kinds, HostUsage{"contents of files", filepath.Join(dataDir, "artifacts"), 0, 0, "by rgpt clean and retention"})
	}
	kinds = append(kinds, HostUsage{"everything else", dataDir, 0, 0, "never: databases and logs"})
	known := map[string]int{}
	for i, k := range kinds {
		known[k.Path] = i
	}
	seen := map[[2]uint64]bool{} // files with several names
	err := filepath.WalkDir(dataDir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile, or belongs to another user
		}
		if bytes := blocksOf(d, seen); bytes > 0 {
			kinds[kindOf(known, dataDir, path)].Bytes += bytes
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure the data folder %s: %w", dataDir, err)
	}
	out := []HostUsage{}
	for _, k := range kinds {
		if _, err := os.Lstat(k.Path); err == nil && k.Bytes > 0 {
			out = append(out, k)
		}
	}
	return out, nil
}

// kindOf returns the index of the innermost known directory that contains a path.
func kindOf(known map[string]int, dataDir, path string) int {
	for ; path != dataDir && strings.HasPrefix(path, dataDir); path = filepath.Dir(path) {
		if i, ok := known[path]; ok {
			return i
		}
	}
	return known[dataDir]
}

// blocksOf returns the disk space of a file or directory; 0 if another name of it was seen before.
func blocksOf(d fs.DirEntry, seen map[[2]uint64]bool) int64 {
	info, err := d.Info()
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	if stat.Nlink > 1 && !d.IsDir() {
		id := [2]uint64{stat.Dev, stat.Ino}
		if seen[id] {
			return 0
		}
		seen[id] = true
	}
	const block = 512
	return stat.Blocks * block
}

func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day != 0 {
		return d.String()
	}
	if d == day {
		return "1 day"
	}
	return fmt.Sprintf("%d days", d/day)
}
