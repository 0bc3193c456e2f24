package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

// entry is a repository with labelled commits.
type entry struct {
	Repo string `yaml:"repo"`
	// Held is true if the rules of internal/pin were developed without the repository.
	Held    bool     `yaml:"held,omitempty"`
	Commits []commit `yaml:"commits"`
}

// commit is a commit with everything that it takes from the repository's tests.
type commit struct {
	ID      string  `yaml:"commit"`
	Removed []label `yaml:"removed,omitempty"`
}

// label is an effect of a commit on a test, decided by reading the diff.
type label struct {
	// Path is the old path of the file.
	Path string `yaml:"path"`
	// Test is the name of the test, or empty for a whole file or a setting.
	Test string   `yaml:"test,omitempty"`
	Kind pin.Kind `yaml:"kind"`
	// Borderline is true if readers could disagree: a finding is right, and its absence is
	// not counted.
	Borderline bool   `yaml:"borderline,omitempty"`
	Why        string `yaml:"why,omitempty"`
}

// readCorpus reads labelled commits.
func readCorpus(file string) ([]entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the labelled commits: %w", err)
	}
	var doc struct {
		Repositories []entry `yaml:"repositories"`
	}
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("the labelled commits in %s are not valid: %w", file, err)
	}
	kinds := []pin.Kind{pin.Deleted, pin.Skipped, pin.Emptied, pin.Weakened, pin.RenamedAway, pin.Excluded}
	for _, e := range doc.Repositories {
		for _, c := range e.Commits {
			for _, l := range c.Removed {
				if l.Path == "" || !slices.Contains(kinds, l.Kind) {
					return nil, fmt.Errorf("%s: %s %s: a label needs a path and one of the kinds %v", file, e.Repo, c.ID, kinds)
				}
			}
		}
	}
	return doc.Repositories, nil
}
