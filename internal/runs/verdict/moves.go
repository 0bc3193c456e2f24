package verdict

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

//go:embed moves.schema.json
var movesSchema []byte

// MovesSchema returns the schema of responses in a deliberation. It is the same for every member,
// so that a move that the member's role does not allow can be distinguished from invalid output.
func MovesSchema() model.Schema {
	return model.Schema{Name: "moves", JSON: movesSchema, Strict: true}
}

// Limits on the keys in a move, independent of the configured limits on texts.
const (
	// maxKey exceeds the length of any valid key; longer keys are rejected. Members choose keys of
	// at most 64 bytes; keys of objections are longer.
	maxKey = 97
	// maxFrom is the maximum number of keys that a synthesis may combine.
	maxFrom = 16
)

// MoveBounds are the limits of a member's response.
type MoveBounds struct {
	Moves int // in a turn
	Text  int // bytes of one text
}

// ModelMove is a move in a model response. Its Text is empty: Whole is the full text.
type ModelMove struct {
	contract.Move
	Whole string
}

// ReadMoves reads a model response as the moves of a turn. It checks only their format and size,
// not whether they can be applied. An unusable response is an LLM_ERROR with code invalid_output,
// whose message can be shown to the model.
func ReadMoves(text string, most MoveBounds) ([]ModelMove, error) {
	doc, err := model.CheckJSON(MovesSchema(), text)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Moves []struct {
			contract.Move
			Text string `json:"text"`
		} `json:"moves"`
	}
	if err := json.Unmarshal(doc, &answer); err != nil {
		return nil, fault.Wrap(err, contract.ClassLLM, contract.CodeInvalidOutput, "the response is not a list of moves")
	}
	if n := len(answer.Moves); n > most.Moves {
		return nil, unusable("the response has %d moves, more than the %d allowed in one turn", n, most.Moves)
	}
	said := make([]ModelMove, len(answer.Moves))
	for i, m := range answer.Moves {
		if n := len(m.Text); n > most.Text {
			return nil, unusable("the text of move %d (%s) is %d bytes long, more than the %d allowed", i+1, m.Kind, n, most.Text)
		}
		if n := len(m.From); n > maxFrom {
			return nil, unusable("move %d (%s) combines %d contributions, more than the %d allowed", i+1, m.Kind, n, maxFrom)
		}
		if err := readSubtasks(i, m.Subtasks); err != nil {
			return nil, err
		}
		m.Key = plainKey(m.Key)
		for j := range m.From {
			m.From[j] = plainKey(m.From[j])
		}
		said[i] = ModelMove{Move: m.Move, Whole: m.Text}
	}
	return said, nil
}

func unusable(format string, args ...any) error {
	return fault.New(contract.ClassLLM, contract.CodeInvalidOutput, format, args...)
}

// readSubtasks checks the number and size of a move's subtasks.
func readSubtasks(i int, all []contract.Subtask) error {
	if n := len(all); n > contract.Subtasks {
		return unusable("move %d has %d subtasks, more than the %d allowed", i+1, n, contract.Subtasks)
	}
	for j := range all {
		t := &all[j]
		if n := len(t.Description); n > contract.SubtaskLength {
			return unusable("the description of subtask %s in move %d is %d bytes long, more than the %d allowed", shortKey(t.ID), i+1, n, contract.SubtaskLength)
		}
		if n := len(t.Dependencies); n > contract.Subtasks {
			return unusable("subtask %s in move %d depends on %d other subtasks, more than the %d allowed", shortKey(t.ID), i+1, n, contract.Subtasks)
		}
		t.ID = shortKey(t.ID)
		for k := range t.Dependencies {
			t.Dependencies[k] = shortKey(t.Dependencies[k])
		}
	}
	return nil
}

// plainKey is the format of a key in moves: news items show it after its section.
func plainKey(key string) string {
	for _, section := range contract.Sections() {
		if rest, ok := strings.CutPrefix(key, string(section)+"/"); ok {
			key = rest
			break
		}
	}
	return shortKey(key)
}

// shortKey shortens a key, but keeps an overlong key invalid.
func shortKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	return strings.ToValidUTF8(key[:maxKey], "_")
}
