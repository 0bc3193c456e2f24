package pgcluster

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/freeport"
)

// programs returns the directory of PostgreSQL's server programs: the installed ones, or downloaded
// ones in cache.
func programs(ctx context.Context, cache string) (string, error) {
	if dir := installed(ctx); dir != "" {
		return dir, nil
	}
	bin := filepath.Join(cache, "bin")
	if complete(bin) {
		return bin, nil
	}
	// The library has no function that only downloads: starting its server does so, and whether
	// that server runs is irrelevant here (as root, it cannot).
	port, err := freeport.Take(ctx)
	if err != nil {
		return "", err
	}
	runtime := filepath.Join(cache, "runtime")
	db := embedded.NewDatabase(embedded.DefaultConfig().BinariesPath(cache).RuntimePath(runtime).
		DataPath(filepath.Join(runtime, "data")).Port(uint32(port)).Logger(io.Discard))
	err = db.Start()
	if err == nil {
		err = db.Stop()
	}
	_ = os.RemoveAll(runtime)
	if complete(bin) {
		return bin, nil
	}
	return "", fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig,
		"no PostgreSQL server programs are installed and none could be downloaded; install them (apt-get install postgresql) or set DATABASE_URL")
}

// Installed returns the directory of the installed server programs; empty if there are none.
func Installed(ctx context.Context) string { return installed(ctx) }

func installed(ctx context.Context) string {
	var places []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		places = append(places, strings.TrimSpace(string(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	sort.Sort(sort.Reverse(sort.StringSlice(versions)))
	places = append(places, versions...)
	if file, err := exec.LookPath("postgres"); err == nil {
		places = append(places, filepath.Dir(file))
	}
	for _, dir := range places {
		if complete(dir) {
			return dir
		}
	}
	return ""
}

func complete(dir string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}
