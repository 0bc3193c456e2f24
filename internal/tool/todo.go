package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed todo.md
var todoDescription string

// TodoItem is an item of an agent's list of what to do.
type TodoItem struct {
	Text   string `json:"text" jsonschema:"minLength=1,maxLength=500" jsonschema_description:"What to do."`
	Status string `json:"status" jsonschema:"enum=open,enum=active,enum=done,enum=dropped" jsonschema_description:"Its status."`
}

// TodoList is a list of what to do, the argument of the todo tool.
type TodoList struct {
	Items []TodoItem `json:"items" jsonschema:"maxItems=50" jsonschema_description:"The whole list, each time."`
}

// String returns the list, one item per line.
func (l TodoList) String() string {
	marks := map[string]string{"open": "[ ]", "active": "[>]", "done": "[x]", "dropped": "[-]"}
	var b strings.Builder
	for _, item := range l.Items {
		fmt.Fprintf(&b, "%s %s\n", marks[item.Status], strings.Join(strings.Fields(item.Text), " "))
	}
	return b.String()
}

func todo() Tool {
	return define(Definition{Name: Todo, Description: todoDescription, ReadOnly: true},
		func(_ context.Context, _ Env, p TodoList) (Result, error) {
			open := 0
			for _, item := range p.Items {
				if item.Status == "open" || item.Status == "active" {
					open++
				}
			}
			return Result{OK: true, Text: fmt.Sprintf("Noted: %d items, %d of them not done yet.", len(p.Items), open)}, nil
		})
}
