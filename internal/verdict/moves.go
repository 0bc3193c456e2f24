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

// MovesSchema returns the form that the answer of a member of a deliberation must
// have. Every member has the same, so that a move that its role does not have can
// be told from nonsense.
func MovesSchema() model.Schema {
	return model.Schema{Name: "moves", JSON: movesSchema, Strict: true}
}

// Bounds of what a move names, whatever the configuration allows of texts.
const (
	// mostKey is one more than a key may have: a longer one is refused by its length.
	mostKey = 65
	// mostFrom is how many keys a synthesis may be made of.
	mostFrom = 16
)

// MoveBounds are what an answer of a member may have.
type MoveBounds struct {
	Moves int // in a turn
	Text  int // bytes of one text
}

// Said is a move as a model made it. Its Text is empty: Whole is what it says.
type Said struct {
	contract.Move
	Whole string
}

// ReadMoves reads a model's answer as moves of a turn. It sees to their form and
// size alone; whether a move can be made now is decided where it is taken. What
// cannot be used is an LLM_ERROR with code invalid_output, fit to be shown to the
// model.
func ReadMoves(text string, most MoveBounds) ([]Said, error) {
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
		return nil, fault.Wrap(err, contract.ClassLLM, contract.CodeInvalidOutput, "the answer is no list of moves")
	}
	if n := len(answer.Moves); n > most.Moves {
		return nil, unusable("it has %d moves in one turn, more than the %d allowed", n, most.Moves)
	}
	said := make([]Said, len(answer.Moves))
	for i, m := range answer.Moves {
		if n := len(m.Text); n > most.Text {
			return nil, unusable("the text of move %d (%s) has %d bytes, more than the %d allowed", i+1, m.Kind, n, most.Text)
		}
		if n := len(m.From); n > mostFrom {
			return nil, unusable("move %d (%s) is made of %d others, more than the %d allowed", i+1, m.Kind, n, mostFrom)
		}
		m.Key = shortKey(m.Key)
		for j := range m.From {
			m.From[j] = shortKey(m.From[j])
		}
		said[i] = Said{Move: m.Move, Whole: m.Text}
	}
	return said, nil
}

func unusable(format string, args ...any) error {
	return fault.New(contract.ClassLLM, contract.CodeInvalidOutput, format, args...)
}

// shortKey bounds a key without making one that is too long a valid one.
func shortKey(key string) string {
	if len(key) <= mostKey {
		return key
	}
	return strings.ToValidUTF8(key[:mostKey], "_")
}
