package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rocketgpt/orchestrator/contract"
)

// The shape of a run: s1, then s2, s3, s5 and s6 in parallel, s4 after s2 and s3; each step creates
// a file, edits it and finishes; then four test shards.
const (
	turns    = 3                      // model calls of a step, each with one tool call
	pathLen  = 3                      // steps on the longest path: s1, s2, s4
	shards   = 4                      // of the tests
	testTime = 100 * time.Millisecond // that a shard takes
)

var needs = map[string][]string{"s1": {}, "s2": {"s1"}, "s3": {"s1"}, "s4": {"s2", "s3"}, "s5": {"s1"}, "s6": {"s1"}}

func stepIDs() []string { return []string{"s1", "s2", "s3", "s4", "s5", "s6"} }

// ideal returns the duration of a run without orchestration overhead: the model's latency for each
// call on the longest path, and one shard.
func ideal(latency time.Duration) time.Duration {
	return time.Duration(1+pathLen*turns)*latency + testTime
}

// hops returns the number of activities on the longest path: the plan, a model and a tool call for
// each turn, integration, test plan, a shard, the release.
func hops() int { return 1 + pathLen*turns*2 + 4 }

// goal returns the goal of runs with a latency, by which the scenario distinguishes them.
func goal(latency time.Duration) string { return fmt.Sprintf("Bench with latency %s.", latency) }

// scenario generates the scripted model's responses for each latency. With commands, a step edits its file with a
// command instead of a file tool.
func scenario(latencies []time.Duration, commands bool) ([]byte, error) {
	var rules []map[string]any
	for _, l := range latencies {
		rule := func(when, reply map[string]any) {
			when["contains"] = goal(l)
			rules = append(rules, map[string]any{
				"when": when, "latency": l.String(), "reply": reply,
				"usage": map[string]any{"prompt_tokens": 1000, "completion_tokens": 200},
			})
		}
		rule(map[string]any{"agent": "planner"}, map[string]any{"json": plan()})
		for _, id := range stepIDs() {
			for turn, call := range calls(id, commands) {
				rule(map[string]any{"agent": "builder", "step": id, "turn": turn + 1}, map[string]any{"tool_calls": []any{call}})
			}
		}
	}
	return yaml.Marshal(map[string]any{"rules": append(rules, healRules()...)})
}

func plan() contract.Plan {
	p := contract.Plan{Summary: "Write six files.", ComplexityScore: 0.3}
	for _, id := range stepIDs() {
		p.Steps = append(p.Steps, contract.Step{
			ID: id, Name: "Write " + id, Description: "Make the file " + id + ".txt, then edit it.", Dependencies: needs[id],
			EstimatedComplexity: contract.LevelLow, RiskLevel: contract.LevelLow,
			VerificationCriteria: []string{"The file is there"}, Files: []string{id + ".txt"},
		})
	}
	return p
}

// calls returns the tool calls of a step, one for each turn.
func calls(id string, commands bool) []any {
	call := func(name string, arguments map[string]any) any {
		return map[string]any{"name": name, "arguments": arguments}
	}
	file := "src/" + id + ".txt"
	edit := call("edit_file", map[string]any{"path": file, "old_text": "made by", "new_text": "edited by"})
	if commands {
		edit = call("run_command", map[string]any{"command": "sed -i 's/made by/edited by/' " + file})
	}
	return []any{
		call("create_file", map[string]any{"path": file, "content": "made by " + id + "\n" + strings.Repeat("a line\n", 20)}),
		edit,
		call("finish", map[string]any{"summary": "wrote " + file}),
	}
}

// repository creates the sample repository: some files, and test shards of known duration.
func repository(ctx context.Context, dir string) error {
	files := map[string]string{
		"rgpt.yaml": fmt.Sprintf(`verification:
  auto_detect: false
  shards: %d
  test: {command: "./test.sh $RGPT_SHARD", format: exit-code}
`, shards),
		"test.sh":   fmt.Sprintf("#!/bin/sh\nsleep %g\nif grep -q wrong src/made.txt 2>/dev/null; then\n  echo '--- FAIL: made.txt is wrong'\n  exit 1\nfi\necho shard $1 passed\n", testTime.Seconds()),
		"README.md": "# Sample for the benchmark\n",
	}
	for i := range 40 {
		files[fmt.Sprintf("src/pkg%d/file%d.txt", i%8, i)] = strings.Repeat(fmt.Sprintf("line of file %d\n", i), 50)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch", "main"}, {"add", "--all"},
		{"-c", "user.name=Bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "--message", "Start"},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("create the sample repository: git %s: %w: %s", args[0], err, text)
		}
	}
	return nil
}
