package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// buildResult has the build time after a one-line change and the sizes of the programs.
type buildResult struct {
	StarterMS  int64            `json:"after_a_change_in_starter_ms"`
	WorkflowMS int64            `json:"after_a_change_in_workflows_ms"` // of both programs
	Sizes      map[string]int64 `json:"bytes"`
}

// buildTries is the number of builds, of which the median counts.
const buildTries = 3

func measureBuild(ctx context.Context, bin string) (buildResult, error) {
	r := buildResult{Sizes: map[string]int64{}}
	for _, name := range programNames() {
		if info, err := os.Stat(filepath.Join(bin, name)); err == nil {
			r.Sizes[name] = info.Size()
		}
	}
	var err error
	if r.StarterMS, err = rebuild(ctx, "starter/main.go", "./starter"); err != nil {
		return r, err
	}
	r.WorkflowMS, err = rebuild(ctx, "workflows/run/run.go", "./starter", "./workers")
	return r, err
}

func programNames() []string { return []string{"rgpt", "rgpt-worker", "temporal-devserver"} }

// rebuild builds packages repeatedly, each time with a different variable at the end of a file (a
// comment would not change the compiled package, nor the linked program). The file itself does not
// change: the compiler sees an overlay.
func rebuild(ctx context.Context, file string, packages ...string) (int64, error) {
	dir, err := os.MkdirTemp("", "rgpt-bench-build-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	source, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("run the bench in the root of the repository: %w", err)
	}
	var took []time.Duration
	for try := range buildTries + 1 {
		overlay, err := changed(dir, file, fmt.Sprintf("%s\nvar BenchChange = \"%s %d\"\n", source, time.Now(), try))
		if err != nil {
			return 0, err
		}
		started := time.Now()
		for i, p := range packages {
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-overlay", overlay, "-o", filepath.Join(dir, fmt.Sprint(i)), p)
			if out, err := cmd.CombinedOutput(); err != nil {
				return 0, fmt.Errorf("go build %s: %w: %s", p, err, out)
			}
		}
		if try > 0 { // the first fills the build cache
			took = append(took, time.Since(started))
		}
	}
	return median(took, time.Duration.Milliseconds), nil
}

// changed writes an overlay that replaces the content of a file.
func changed(dir, file, content string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	instead := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(instead, []byte(content), 0o600); err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{path: instead}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
}

func (r *buildResult) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	fmt.Fprintf(out, "\nBuild after a one-line change (median of %d): rgpt %s after a change in starter/; rgpt and rgpt-worker %s after a change in workflows/\n",
		buildTries, ms(r.StarterMS), ms(r.WorkflowMS))
	t := newTable(out, "Program sizes", "PROGRAM", "MB")
	for _, name := range programNames() {
		t.row(name, fmt.Sprintf("%.1f", float64(r.Sizes[name])/1e6))
	}
	return t.Flush()
}
