package rank_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/rank/ranktest"
)

func TestDefinitionsThatAQuestionNamesAreFound(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"pkg/signer.py":      "class Signer:\n    def __init__(self): pass\n\n    def sign(self): pass\n",
		"pkg/serializer.py":  "class Serializer:\n    def __init__(self): pass\n\nclass SafeSerializer(Serializer):\n    pass\n",
		"tests/test_sign.py": "def signer(): pass\n\ndef make_signer(): pass\n",
		"pkg/make.py":        "def make_signer(): pass\n",
	}
	c := ranktest.New(files, nil)
	r := rank.New(c, nil, rank.Tuned())
	found := func(text string, each, most int) (out []string) {
		list, err := r.Definitions(text, each, most)
		require.NoError(t, err)
		for _, d := range list {
			out = append(out, c.Path(d.Doc)+":"+d.Name)
		}
		return out
	}
	require.Equal(t, []string{"pkg/signer.py:Signer", "pkg/signer.py:__init__"}, found("`Signer.__init__` fails", 3, 10), "of the class that is named")
	require.Equal(t, []string{"pkg/make.py:make_signer", "tests/test_sign.py:make_signer"}, found("make_signer is slow, unlike SafeSerialiser", 3, 10), "tests come last")
	require.Equal(t, []string{"pkg/make.py:make_signer"}, found("make_signer is slow", 1, 10))
	require.Equal(t, []string{"pkg/signer.py:sign", "pkg/make.py:make_signer"}, found("make_signer, SafeSerializer and `sign`", 1, 2), "what is quoted comes first")
	require.Empty(t, found("the separator in signer.py and words such as sign", 3, 10), "names of files and plain words name no definitions")
}
