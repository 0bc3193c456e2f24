package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

// coverageResult compares the tests of a repository without and with coverage.
type coverageResult struct {
	Repository string  `json:"repository"`
	Commit     string  `json:"commit"`
	Tests      int     `json:"tests"`
	Pairs      int     `json:"pairs"`
	OffMS      int64   `json:"off_ms"` // medians
	AutoMS     int64   `json:"auto_ms"`
	Ratio      float64 `json:"ratio"` // median of the ratios of the pairs
	Lowest     float64 `json:"lowest_ratio"`
	Highest    float64 `json:"highest_ratio"`
	CPU        float64 `json:"cpu_ratio"` // of the whole commands; other load on the machine hardly affects it
	Lines      int     `json:"lines"`     // measured
	Note       string  `json:"note,omitempty"`
	// Different lists tests whose outcome differed between the two in any pair.
	Different []string `json:"different,omitempty"`
}

// measureCoverage verifies the last commit of each repository with rgpt verify, alternately without
// and with coverage, so the load of the machine affects both. The first pair only fills caches.
func measureCoverage(ctx context.Context, o options, say func(string, ...any)) ([]coverageResult, error) {
	dir, err := os.MkdirTemp("", "rgpt-bench-coverage-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var out []coverageResult
	for n, repo := range o.repositories {
		say("Coverage of %s", repo)
		r, err := compareCoverage(ctx, o, filepath.Join(dir, fmt.Sprint(n)), repo)
		if err != nil {
			if ctx.Err() != nil {
				return out, err
			}
			say("  %v", err) // the other repositories can still be compared
			continue
		}
		out = append(out, r)
		say("  without %s, with %s, %.2f times (%.2f to %.2f), CPU time %.2f times", ms(r.OffMS), ms(r.AutoMS), r.Ratio, r.Lowest, r.Highest, r.CPU)
	}
	return out, nil
}

func compareCoverage(ctx context.Context, o options, dir, repo string) (coverageResult, error) {
	out := coverageResult{Repository: path.Base(filepath.ToSlash(repo)), Pairs: o.runs}
	modes := []string{"off", "auto"}
	took := map[string][]int64{}
	var ratios, cpu []float64
	for pair := range o.runs + 1 {
		reports, used := map[string]standalone.Report{}, map[string]time.Duration{}
		for _, mode := range modes {
			var err error
			if reports[mode], used[mode], err = verified(ctx, o, filepath.Join(dir, mode), repo, mode); err != nil {
				return out, err
			}
		}
		slices.Reverse(modes)
		out.Different = append(out.Different, differences(reports["off"], reports["auto"])...)
		if pair == 0 {
			continue
		}
		off, auto := testTimeOf(reports["off"]), testTimeOf(reports["auto"])
		took["off"], took["auto"] = append(took["off"], off), append(took["auto"], auto)
		ratios = append(ratios, float64(auto)/float64(max(off, 1)))
		cpu = append(cpu, float64(used["auto"])/float64(max(used["off"], 1)))
		r := reports["auto"]
		out.Commit, out.Tests = r.Commit, r.Summary.Ran()
		if r.Coverage != nil {
			out.Lines, out.Note = r.Coverage.Lines, r.Coverage.Note
		}
	}
	same := func(n int64) int64 { return n }
	out.OffMS, out.AutoMS = median(took["off"], same), median(took["auto"], same)
	itself := func(r float64) float64 { return r }
	out.Ratio, out.CPU = median(ratios, itself), median(cpu, itself)
	out.Lowest, out.Highest = slices.Min(ratios), slices.Max(ratios)
	slices.Sort(out.Different)
	out.Different = slices.Compact(out.Different)
	return out, nil
}

// verified runs the tests of a repository, which may fail, and returns the CPU time of the command
// and its children. Each mode has its own caches, as each installation has one setting.
func verified(ctx context.Context, o options, data, repo, mode string) (standalone.Report, time.Duration, error) {
	var report standalone.Report
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "rgpt"), "verify", "--repo", repo, "--commit", "HEAD", "--only", "test",
		"--json", "--data-dir", data, "--set", "verification.coverage="+mode)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return report, 0, fmt.Errorf("rgpt verify: %w", err)
	}
	if failed := json.Unmarshal(stdout.Bytes(), &report); failed != nil || !report.Judged() || report.Summary.Ran() == 0 {
		return report, 0, fmt.Errorf("rgpt verify of %s ran no test: %w: %s%s", repo, err, stdout.Bytes(), stderr.Bytes())
	}
	return report, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func testTimeOf(r standalone.Report) (sum int64) {
	for _, c := range r.Checks {
		if c.Check.Category == contract.CategoryTest {
			sum += c.DurationMS
		}
	}
	return sum
}

// differences returns the names of tests with different outcomes, and of checks with different
// verdicts.
func differences(off, auto standalone.Report) []string {
	outcomes := func(r standalone.Report) map[string]string {
		all := map[string]string{}
		for _, c := range r.Checks {
			all["check "+c.Check.ID] = fmt.Sprint(c.OK)
		}
		for _, c := range r.Results {
			all[c.Name] += string(c.Status) + " "
		}
		return all
	}
	a, b := outcomes(off), outcomes(auto)
	var out []string
	for _, from := range []map[string]string{a, b} {
		for name := range from {
			if a[name] != b[name] {
				out = append(out, fmt.Sprintf("%s (%s without coverage, %s with it)", name, strings.TrimSpace(a[name]), strings.TrimSpace(b[name])))
			}
		}
	}
	return out
}

func (r results) printCoverage(out io.Writer) error {
	if len(r.Coverage) == 0 {
		return nil
	}
	t := newTable(out, "Duration of the test checks of rgpt verify without and with coverage (medians of alternating pairs)",
		"REPOSITORY", "COMMIT", "TESTS", "PAIRS", "WITHOUT", "WITH", "RATIO", "LOWEST", "HIGHEST", "CPU RATIO", "LINES", "OUTCOME")
	for _, c := range r.Coverage {
		outcome := "the same"
		if len(c.Different) > 0 {
			outcome = strings.Join(c.Different, "; ")
		}
		if c.Note != "" {
			outcome += "; " + c.Note
		}
		t.row(c.Repository, c.Commit[:min(len(c.Commit), 12)], fmt.Sprint(c.Tests), fmt.Sprint(c.Pairs), ms(c.OffMS), ms(c.AutoMS),
			ratio(c.Ratio), ratio(c.Lowest), ratio(c.Highest), ratio(c.CPU), fmt.Sprint(c.Lines), outcome)
	}
	return t.Flush()
}
