package modelsource

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// Result is a model's scores in a benchmark, under the name that the benchmark has for it.
type Result struct {
	Name   string
	Scores []model.Score
}

// liveBenchScores are the categories of LiveBench that are used, by the names of scores.
var liveBenchScores = []struct{ score, category string }{
	{model.ScoreCoding, "Coding"}, {model.ScoreAgenticCoding, "Agentic Coding"}, {model.ScoreReasoning, "Reasoning"},
}

// LiveBench reads a table of LiveBench's leaderboard with its categories. A category's score is the
// mean of its tasks, as on the leaderboard; it is left out if a task is missing. The day is that of
// the questions.
func LiveBench(table io.Reader, categories []byte, day string) ([]Result, error) {
	var tasks map[string][]string
	if err := json.Unmarshal(categories, &tasks); err != nil {
		return nil, fmt.Errorf("read the categories: %w", err)
	}
	r := csv.NewReader(table)
	r.FieldsPerRecord = -1 // rows of new models lack columns at times
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || len(rows[0]) == 0 || rows[0][0] != "model" {
		return nil, errors.New("the table has no column model")
	}
	head := rows[0]
	var out []Result
	for _, row := range rows[1:] {
		if len(row) != len(head) {
			continue // its values would be taken for other tasks
		}
		result := Result{Name: row[0]}
		for _, want := range liveBenchScores {
			if mean, ok := meanOf(head, row, tasks[want.category]); ok {
				result.Scores = append(result.Scores, model.Score{
					Name: want.score, Value: math.Round(mean*10) / 1000, Source: shown("LiveBench: " + row[0]), Date: day,
				})
			}
		}
		out = append(out, result)
	}
	return out, nil
}

// meanOf returns the mean of a row's values for tasks; false if one is missing.
func meanOf(head, row, tasks []string) (float64, bool) {
	var sum float64
	for _, task := range tasks {
		at := slices.Index(head, task)
		if at < 0 {
			return 0, false
		}
		v, err := strconv.ParseFloat(row[at], 64)
		if err != nil || !(v >= 0 && v <= 100) { // nor NaN
			return 0, false
		}
		sum += v
	}
	return sum / float64(len(tasks)), len(tasks) > 0
}

// ScoreChanges compares the scores of a catalogue with results of a benchmark. It returns what changes,
// and the entries of the models with new scores. Models without a result keep their scores.
func ScoreChanges(known model.Catalogue, results []Result) ([]Change, model.Catalogue) {
	var changes []Change
	var entries model.Catalogue
	for _, e := range AddScores(current(known), results) {
		old, _ := find(known, e.Provider, e.Model)
		if slices.Equal(old.Scores, e.Scores) {
			continue
		}
		var values []string
		for _, s := range e.Scores {
			values = append(values, fmt.Sprintf("%s %.3g", s.Name, s.Value))
		}
		changes = append(changes, Change{ChangeScores, e.Provider, e.Model, strings.Join(values, ", ") + " (" + e.Scores[0].Source + ")"})
		entries = append(entries, e)
	}
	return changes, entries
}

// current returns the entry that counts for each model, sorted.
func current(c model.Catalogue) model.Catalogue {
	out := slices.Clone(c)
	slices.Reverse(out)
	slices.SortStableFunc(out, compareEntries)
	return slices.CompactFunc(out, func(a, b model.CatalogueEntry) bool { return compareEntries(a, b) == 0 })
}

// variant matches what benchmarks add to a model's name: a date, the amount of reasoning.
var variant = regexp.MustCompile(`^(-\d{8}|-\d{4}-\d{2}-\d{2}|-\d{2}-\d{4}|-\d{2}-\d{2})?(-thinking|-reasoning)?(-auto|-\d+k)?(-(xhigh|high|medium)(-effort|thinking)?)?$`)

// AddScores adds to each model its scores in a benchmark. Benchmarks measure a model with several
// amounts of reasoning: of those, high effort counts, otherwise the closest to it. Results without
// reasoning, or with little, say nothing about the others.
func AddScores(c model.Catalogue, results []Result) model.Catalogue {
	out := slices.Clone(c)
	for i := range out {
		name := model.PlainName(out[i].Model)
		best, found := Result{}, -1
		for _, r := range results {
			rest, ok := strings.CutPrefix(model.PlainName(r.Name), name)
			if !ok || !variant.MatchString(rest) {
				continue
			}
			if rank := effortRank(rest); rank > found {
				best, found = r, rank
			}
		}
		if found >= 0 && len(best.Scores) > 0 {
			out[i].Scores = slices.Clone(best.Scores)
		}
	}
	return out
}

// effortRank orders the variants of a model: the higher, the closer to high effort.
func effortRank(rest string) int {
	rank := 0
	switch {
	case strings.Contains(rest, "xhigh"):
		rank = 6
	case strings.Contains(rest, "high"):
		rank = 8
	case strings.Contains(rest, "medium"):
		rank = 4
	case strings.Contains(rest, "-thinking"), strings.Contains(rest, "-reasoning"):
		rank = 2
	}
	if strings.Contains(rest, "-thinking") {
		rank++
	}
	return rank
}
