package gitea

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	sdk "code.gitea.io/sdk/gitea"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// labelColour is the colour of labels that are created: grey.
const labelColour = "#ededed"

func labelNames(labels []*sdk.Label) []string {
	names := make([]string, 0, len(labels))
	for _, l := range labels {
		names = append(names, l.Name)
	}
	return names
}

// AddLabels adds labels to an issue or pull request. Those that neither the repository nor its
// organisation has are created in the repository.
func (s *Service) AddLabels(ctx context.Context, repo string, on forge.Subject, labels []string) error {
	c, err := s.begin(ctx, repo, "add labels to "+on.String())
	if err != nil {
		return err
	}
	if len(labels) == 0 {
		return nil
	}
	for _, name := range labels {
		if strings.TrimSpace(name) == "" {
			return c.refuse("the name of a label is empty")
		}
	}
	ids, err := c.labelIDs(labels)
	if err != nil {
		return c.explain(err)
	}
	_, _, err = c.api.AddIssueLabels(c.owner, c.name, on.Number, sdk.IssueLabelsOption{Labels: ids})
	return c.explain(err)
}

// labelIDs returns the numbers of labels, and creates those that do not exist.
func (c *call) labelIDs(names []string) ([]int64, error) {
	c.labels.Lock()
	defer c.labels.Unlock()
	known := map[string]int64{}
	remember := func(labels []*sdk.Label) {
		for _, l := range labels {
			// Several may have the same name; the oldest is the one that everything else uses.
			if id, ok := known[l.Name]; !ok || l.ID < id {
				known[l.Name] = l.ID
			}
		}
	}
	own, err := pages(func(page sdk.ListOptions) ([]*sdk.Label, *sdk.Response, error) {
		return c.api.ListRepoLabels(c.owner, c.name, sdk.ListLabelsOptions{ListOptions: page})
	})
	if err != nil {
		return nil, err
	}
	remember(own)
	missing := func(name string) bool { _, ok := known[name]; return !ok }
	if slices.ContainsFunc(names, missing) {
		shared, err := pages(func(page sdk.ListOptions) ([]*sdk.Label, *sdk.Response, error) {
			return c.api.ListOrgLabels(c.owner, sdk.ListOrgLabelsOptions{ListOptions: page})
		})
		// The owner may be a person, and the token may not be allowed to see organisations.
		if err != nil && !is(err, http.StatusNotFound, http.StatusForbidden) {
			return nil, err
		}
		remember(shared)
	}
	var ids []int64
	for _, name := range names {
		if missing(name) {
			created, _, err := c.api.CreateLabel(c.owner, c.name, sdk.CreateLabelOption{Name: name, Color: labelColour})
			if err != nil {
				return nil, fmt.Errorf("create the label %q: %w", fault.Clip(name, maxShown), err)
			}
			known[name] = created.ID
		}
		ids = append(ids, known[name])
	}
	return ids, nil
}

// RemoveLabel removes a label.
func (s *Service) RemoveLabel(ctx context.Context, repo string, on forge.Subject, label string) error {
	c, err := s.begin(ctx, repo, fmt.Sprintf("remove the label %q from %s", fault.Clip(label, maxShown), on))
	if err != nil {
		return err
	}
	set, err := pages(func(page sdk.ListOptions) ([]*sdk.Label, *sdk.Response, error) {
		return c.api.GetIssueLabels(c.owner, c.name, on.Number, sdk.ListLabelsOptions{ListOptions: page})
	})
	if err != nil {
		return c.explain(err)
	}
	for _, l := range set {
		if l.Name != label {
			continue
		}
		_, err := c.api.DeleteIssueLabel(c.owner, c.name, on.Number, l.ID)
		// Meanwhile, it may have been removed or deleted.
		if err != nil && !is(err, http.StatusNotFound, http.StatusUnprocessableEntity) {
			return c.explain(err)
		}
	}
	return nil
}
