package main

import (
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
)

// entry is a repository with the commits that are evaluated.
type entry struct {
	Repo     string `yaml:"repo"`
	Language string `yaml:"language"`
	// Held is true if the weights of the ranking were tuned without the repository.
	Held    bool     `yaml:"held,omitempty"`
	Commits []string `yaml:"commits,omitempty"`
}

type list struct {
	Repositories []entry `yaml:"repositories"`
}

func readList(file string) ([]entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the list of commits: %w", err)
	}
	var doc list
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("the list of commits in %s is not valid: %w", file, err)
	}
	for _, e := range doc.Repositories {
		if e.Repo == "" || e.Language == "" {
			return nil, fmt.Errorf("%s: an entry needs repo and language", file)
		}
	}
	return doc.Repositories, nil
}

// listHead explains the file that -select writes.
const listHead = `# Commits of public repositories on which test/retrieval measures the search of the brain.
# Chosen by "go run ./test/retrieval -select", whose rules are in select.go. The halves were fixed
# before any tuning: in each language, the repositories in the order of the SHA-256 of their names are
# in turn tuned and held.
`

func writeList(file string, entries []entry) error {
	text, err := yaml.MarshalWithOptions(list{Repositories: entries}, yaml.IndentSequence(false))
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(listHead), text...), 0o644)
}
