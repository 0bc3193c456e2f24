package prompt

import "strings"

// RerankTask is the data for the prompt that asks for the order of found files.
type RerankTask struct {
	Question string
	Files    []Excerpt // in the order in which they were found
}

// Numbered is a file of a RerankTask with its number, from 1.
type Numbered struct {
	Number int
	Excerpt
}

// Numbered returns the files with their numbers.
func (t RerankTask) Numbered() []Numbered {
	list := make([]Numbered, len(t.Files))
	for i, f := range t.Files {
		if strings.TrimSpace(f.Text) == "" {
			f.Text = "[no text]"
		}
		list[i] = Numbered{i + 1, f}
	}
	return list
}

// Rerank renders the prompt that asks for the order of found files.
func Rerank(task RerankTask) (Prompt, error) { return render("rerank", task) }
