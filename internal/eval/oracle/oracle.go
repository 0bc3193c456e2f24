// Package oracle is a model that knows the solutions of tasks. It plays the change of a real commit
// through an agent's tools, so an evaluation without a model proves that everything else works:
// repositories, environments, checks, policies and hidden tests. A noisy oracle makes a mistake
// first, and corrects it once it sees the failure, which proves healing.
//
// Solutions are files in one directory, which the scripted model's server reads. A solution's name
// is the name of the model that plays it.
package oracle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/renameio/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// prefix starts the names of the models that play solutions.
const prefix = "oracle-"

// maxSolution is the maximum size of a solution's file, in bytes.
const maxSolution = 64 << 20

// stepID is the only step of an oracle's plan.
const stepID = "step-001"

// Dir returns the directory of solutions in a data folder.
func Dir(dataDir string) string { return filepath.Join(dataDir, "eval", "oracle") }

// Solution is a change as calls of tools.
type Solution struct {
	Title string   `json:"title"`
	Files []string `json:"files"`
	// Calls produce the solution from the base.
	Calls []commits.Call `json:"calls"`
	// Again produces the solution from any state: a second attempt starts from the files of the
	// first one.
	Again []commits.Call `json:"again,omitempty"`
	// Wrong, if set, produce a state with a mistake from the base, and Fix corrects that mistake.
	Wrong []commits.Call `json:"wrong,omitempty"`
	Fix   []commits.Call `json:"fix,omitempty"`
}

// Store writes a solution and returns the name of the model that plays it.
func Store(dir string, s Solution) (model string, err error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode a solution: %w", err)
	}
	sum := sha256.Sum256(raw)
	model = prefix + hex.EncodeToString(sum[:12])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the directory of solutions: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(dir, model+".json"), raw, 0o600); err != nil {
		return "", fmt.Errorf("write a solution: %w", err)
	}
	return model, nil
}

// Player plays the solutions in a directory. It is safe for concurrent use.
type Player struct {
	Dir   string
	known sync.Map // name of the model → Solution; a name identifies the content
}

// Play implements scripted.Player.
func (p *Player) Play(r scripted.Request) (scripted.Reply, bool, error) {
	if !strings.HasPrefix(r.Model, prefix) {
		return scripted.Reply{}, false, nil
	}
	s, err := p.solution(r.Model)
	if err != nil {
		return scripted.Reply{}, true, err
	}
	return s.reply(r), true, nil
}

func (p *Player) solution(model string) (Solution, error) {
	if s, ok := p.known.Load(model); ok {
		return s.(Solution), nil
	}
	if model != filepath.Base(model) {
		return Solution{}, fmt.Errorf("%q is not the name of a solution", model)
	}
	f, err := os.Open(filepath.Join(p.Dir, model+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Solution{}, fmt.Errorf("there is no solution %s on this machine; run rgpt eval run with the data folder of this stack", model)
	}
	if err != nil {
		return Solution{}, err
	}
	defer f.Close()
	var s Solution
	if err := json.NewDecoder(io.LimitReader(f, maxSolution)).Decode(&s); err != nil {
		return s, fmt.Errorf("read the solution %s: %w", model, err)
	}
	p.known.Store(model, s)
	return s, nil
}

// reply answers one request.
func (s Solution) reply(r scripted.Request) scripted.Reply {
	switch {
	case slices.Contains(r.Tools, tool.EditFile):
		return scripted.Reply{Calls: s.work(r)}
	case slices.Contains(r.Tools, "submit_plan"): // the planner's, if it works with tools
		return scripted.Reply{Calls: []scripted.Call{{Name: "submit_plan", Arguments: s.plan()}}}
	}
	plan, err := json.Marshal(s.plan())
	if err != nil {
		plan = []byte("{}") // a plan of texts can always be encoded
	}
	return scripted.Reply{Text: string(plan)}
}

func (s Solution) plan() contract.Plan {
	return contract.Plan{
		Summary: s.Title, ComplexityScore: 0.2,
		Steps: []contract.Step{{
			ID: stepID, Name: s.Title, Description: "Make the change: " + s.Title, Dependencies: []string{},
			EstimatedComplexity: contract.LevelLow, RiskLevel: contract.LevelLow,
			VerificationCriteria: []string{"All tests pass."}, Files: s.Files,
		}},
	}
}

// work returns the next calls of an agent: first it reads the files, then it changes them, then it
// finishes. If its work is not accepted, it corrects the mistake.
func (s Solution) work(r scripted.Request) []scripted.Call {
	turn, finished := position(r.Messages)
	calls := s.Calls
	switch again := finished || r.Agent == string(contract.AgentRepair); {
	case again: // without a mistake, nothing has to be corrected
		calls = s.Fix
	case r.Attempt > 1:
		calls = s.Again
	case len(s.Wrong) > 0:
		calls = s.Wrong
	}
	batches := slices.Collect(slices.Chunk(calls, commits.TurnCalls))
	if reads := s.reads(calls); len(reads) > 0 {
		batches = slices.Insert(batches, 0, reads)
	}
	if turn >= len(batches) {
		return []scripted.Call{{Name: tool.Finish, Arguments: map[string]string{"summary": "Made the change: " + s.Title}}}
	}
	var out []scripted.Call
	for _, c := range batches[turn] {
		out = append(out, scripted.Call{Name: c.Name, Arguments: c.Arguments})
	}
	return out
}

// reads returns calls that read the files that exist and are about to change.
func (s Solution) reads(calls []commits.Call) []commits.Call {
	var out []commits.Call
	seen := map[string]bool{}
	for _, c := range calls {
		path := c.Arguments["path"]
		if c.Name == tool.EditFile && !seen[path] && len(out) < commits.TurnCalls {
			out = append(out, commits.Call{Name: tool.ReadFile, Arguments: map[string]string{"path": path}})
		}
		seen[path] = true
	}
	return out
}

// position returns the number of turns since the last attempt to finish, and whether there was one.
func position(messages []scripted.Message) (turn int, finished bool) {
	for _, m := range messages {
		switch {
		case m.Role != "assistant":
		case slices.Contains(m.Calls, tool.Finish):
			turn, finished = 0, true
		default:
			turn++
		}
	}
	return turn, finished
}
