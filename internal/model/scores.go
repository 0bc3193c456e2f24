package model

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// published is what a maker published about a model.
type published struct {
	Model         string   `yaml:"model" validate:"required"`
	Maker         string   `yaml:"maker" validate:"required"`
	Title         string   `yaml:"title,omitempty"` // of what it published; empty: when it released the model
	Date          string   `yaml:"date" validate:"required,datetime=2006-01-02"`
	AgenticCoding float64  `yaml:"agentic_coding,omitempty" validate:"gte=0,lte=1,required_without=Reasoning"`
	Reasoning     float64  `yaml:"reasoning,omitempty" validate:"gte=0,lte=1"`
	URLs          []string `yaml:"urls" validate:"required,dive,url"` // where the numbers can be checked
}

//go:embed scores.yaml
var scoresFile []byte

var publishedResults = sync.OnceValue(func() []published {
	var file struct {
		Models []published `yaml:"models"`
	}
	if err := yaml.UnmarshalWithOptions(scoresFile, &file, yaml.Strict()); err != nil {
		panic("the embedded scores.yaml: " + err.Error()) //nolint:forbidigo // a broken build, which the tests detect
	}
	return file.Models
})

// scores returns the results as scores with their source.
func (p published) scores() []Score {
	by := ", as published by " + p.Maker
	if p.Title == "" {
		by += " with the release"
	} else {
		by += ", " + p.Title
	}
	var out []Score
	for _, s := range []Score{
		{Name: ScoreAgenticCoding, Value: p.AgenticCoding, Source: "SWE-bench Verified" + by, Date: p.Date},
		{Name: ScoreReasoning, Value: p.Reasoning, Source: "GPQA Diamond" + by, Date: p.Date},
	} {
		if s.Value > 0 {
			out = append(out, s)
		}
	}
	return out
}

// dated matches the day at the end of the name of a model's version.
var dated = regexp.MustCompile(`-(20\d{6}|20\d{2}-\d{2}-\d{2})$`)

// PlainName returns a model's name as it is compared between providers and benchmarks: without the
// vendor, and 4.5 as 4-5.
func PlainName(name string) string {
	return strings.ReplaceAll(name[strings.LastIndex(name, "/")+1:], ".", "-")
}

// WithPublishedScores gives the models without scores those that their makers published, at whatever
// provider they are. Once the installation stores scores of its own, it adds none: results of
// different benchmarks cannot be compared, so those of the makers would distort the choice of models.
func (c Catalogue) WithPublishedScores(l Learned) Catalogue {
	if slices.ContainsFunc(l.Updates, func(e CatalogueEntry) bool { return len(e.Scores) > 0 }) {
		return c
	}
	byName := map[string][]Score{}
	for _, p := range publishedResults() {
		byName[PlainName(p.Model)] = p.scores()
	}
	out := slices.Clone(c)
	for i := range out {
		if e := &out[i]; len(e.Scores) == 0 {
			e.Scores = slices.Clone(byName[dated.ReplaceAllString(PlainName(e.Model), "")])
		}
	}
	return out
}
