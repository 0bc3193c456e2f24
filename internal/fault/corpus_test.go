package fault_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// sample is one labelled failure of testdata/corpus.
type sample struct {
	Name     string           `yaml:"name"`
	Kind     string           `yaml:"kind"`
	Real     bool             `yaml:"real"`
	Command  string           `yaml:"command"`
	Exit     int              `yaml:"exit"`
	Signal   string           `yaml:"signal"`
	TimedOut bool             `yaml:"timed_out"`
	OOM      bool             `yaml:"oom"`
	Finish   string           `yaml:"finish"`
	WantJSON bool             `yaml:"want_json"`
	Refusal  string           `yaml:"refusal"`
	Problem  string           `yaml:"problem"`
	Status   int              `yaml:"status"`
	Tools    []string         `yaml:"tools"`
	Missing  []string         `yaml:"missing"`
	Calls    []fault.ToolCall `yaml:"calls"`
	Class    contract.Class   `yaml:"class"`
	Code     contract.Code    `yaml:"code"`
	Cause    string           `yaml:"cause"`
	Where    string           `yaml:"where"`
	Text     string           `yaml:"text"`
}

// classify asks the classifier for the sample's kind.
func (s sample) classify(t *testing.T) *contract.Failure {
	switch s.Kind {
	case "output":
		return fault.OfOutput(fault.Output{
			Command: s.Command, ExitCode: s.Exit, Signal: s.Signal, TimedOut: s.TimedOut, OutOfMemory: s.OOM, Text: s.Text,
		})
	case "answer":
		return fault.OfAnswer(fault.Answer{
			Text: s.Text, FinishReason: s.Finish, Refusal: s.Refusal, WantJSON: s.WantJSON,
			ToolCalls: s.Calls, Tools: s.Tools, Problem: s.Problem, MissingFiles: s.Missing,
		})
	case "http":
		return fault.OfHTTP(s.Status, []byte(s.Text))
	}
	require.Fail(t, "unknown kind", "%s: %q", s.Name, s.Kind)
	return nil
}

// wrong returns what the classifier got wrong, "" if nothing.
func (s sample) wrong(f *contract.Failure) string {
	if f == nil {
		if s.Class == "" {
			return ""
		}
		return "nothing was found wrong"
	}
	var all []string
	if f.Class != s.Class || f.Code != s.Code {
		all = append(all, fmt.Sprintf("is %s %s, must be %s %s", f.Class, f.Code, s.Class, s.Code))
	}
	if !strings.Contains(f.Cause, s.Cause) {
		all = append(all, fmt.Sprintf("the cause must hold %q", s.Cause))
	}
	if !strings.Contains(f.Message, s.Where) {
		all = append(all, fmt.Sprintf("the message must name %q", s.Where))
	}
	return strings.Join(all, "; ")
}

// heldOutFamilies are tools whose wording no rule was written after.
var heldOutFamilies = []string{"docker", "dotnet", "fresh", "infra", "java", "later", "php", "ruby", "rust", "tools"}

// heldOut reports whether a sample was withheld when the rules were written: whole
// families, and of the others a quarter by the hash of the name.
func (s sample) heldOut() bool {
	family, _, _ := strings.Cut(s.Name, "/")
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Name))
	return slices.Contains(heldOutFamilies, family) || h.Sum32()%4 == 0
}

func corpus(t testing.TB) []sample {
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	require.NoError(t, err)
	var all []sample
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var samples []sample
		require.NoError(t, yaml.UnmarshalWithOptions(data, &samples, yaml.Strict()), file)
		all = append(all, samples...)
	}
	return all
}

// score classifies samples and returns each mistake and the confusion matrix.
func score(t *testing.T, part string, samples []sample) (right int) {
	matrix := map[contract.Class]map[contract.Class]int{}
	for _, s := range samples {
		f := s.classify(t)
		got := contract.Class("-")
		if f != nil {
			got = f.Class
		}
		if matrix[s.Class] == nil {
			matrix[s.Class] = map[contract.Class]int{}
		}
		matrix[s.Class][got]++
		if wrong := s.wrong(f); wrong != "" {
			t.Logf("%s: %s: %s\n\tgot %+v", part, s.Name, wrong, f)
		} else {
			right++
		}
	}
	columns := append(contract.Classes(), "-")
	table := fmt.Sprintf("%s: %d of %d right (%.1f %%); rows are labels, columns what was found\n%16s", part, right, len(samples), 100*float64(right)/float64(len(samples)), "")
	for _, c := range columns {
		table += fmt.Sprintf(" %5.5s", c)
	}
	for _, row := range append(contract.Classes(), "") {
		table += fmt.Sprintf("\n%16s", row)
		for _, c := range columns {
			table += fmt.Sprintf(" %5d", matrix[row][c])
		}
	}
	t.Log(table)
	return right
}

func TestTheClassifierKnowsItsCorpus(t *testing.T) {
	t.Parallel()
	var tuning, held []sample
	names := map[string]bool{}
	for _, s := range corpus(t) {
		require.False(t, names[s.Name], "two samples are named %s", s.Name)
		names[s.Name] = true
		if s.heldOut() {
			held = append(held, s)
		} else {
			tuning = append(tuning, s)
		}
	}
	require.GreaterOrEqual(t, len(names), 120)
	require.Greater(t, len(held), len(names)/3, "a good part of the corpus is held out")
	require.Equal(t, len(tuning), score(t, "tuning", tuning), "every sample that rules were written after is right")
	if os.Getenv("RGPT_TUNING") == "" {
		right := score(t, "held out", held)
		require.GreaterOrEqual(t, float64(right), 0.95*float64(len(held)), "of what no rule was written after")
	}
}
