package pin

import (
	"path"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin/golang"
	"github.com/rocketgpt/orchestrator/internal/pin/java"
	"github.com/rocketgpt/orchestrator/internal/pin/javascript"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
	"github.com/rocketgpt/orchestrator/internal/pin/python"
	"github.com/rocketgpt/orchestrator/internal/pin/rust"
)

// languages are the languages whose tests are judged.
var languages = []*language.Language{&golang.Language, &javascript.Language, &python.Language, &rust.Language, &java.Language}

// languageOf returns the language of the file at a path, or a language without a name if unknown.
func languageOf(p string) *language.Language {
	for _, l := range languages {
		if slices.Contains(l.Extensions, path.Ext(p)) {
			return l
		}
	}
	return &language.Language{}
}
