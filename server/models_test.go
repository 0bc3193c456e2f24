package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestTheClientChoosesModelsAsTheServerDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Models.Default = config.Choice{Provider: "openai", Model: "gpt-5"}
	c, _ := clientOf(t, b.handler, quietly)
	none := int64(0)
	set, err := c.SetAgentModel(t.Context(), contract.AgentBuilder, control.NewModelChoice{Model: "anthropic/claude-sonnet-4-5", By: "ana", Version: &none})
	require.NoError(t, err)
	require.Equal(t, []string{"ana", "claude-sonnet-4-5"}, []string{set.Choice.By, set.Model.Model})
	require.Contains(t, set.Source, "settings page, by ana at ")

	_, err = c.SetAgentModel(t.Context(), contract.AgentBuilder, control.NewModelChoice{Model: "openai/gpt-5", By: "ben", Version: &none})
	require.True(t, fault.Is(err, contract.CodeRejected), "ben has not seen ana's choice: %v", err)
	require.ErrorContains(t, err, "ana set the model of the builder to anthropic/claude-sonnet-4-5")
	byDefault, err := c.SetAgentModel(t.Context(), contract.AgentPlanner, control.NewModelChoice{Model: "openai/gpt-5-mini"})
	require.NoError(t, err)
	require.Equal(t, "api", byDefault.Choice.By)

	list, err := c.AgentModels(t.Context())
	require.NoError(t, err)
	models := map[contract.Agent]string{}
	for _, m := range list {
		models[m.Agent] = m.Model.Model
	}
	require.Equal(t, map[contract.Agent]string{
		"planner": "gpt-5-mini", "builder": "claude-sonnet-4-5", "repair": "gpt-5", "alpha": "gpt-5-mini", "beta": "gpt-5-mini", "gamma": "gpt-5-mini",
	}, models)

	_, err = c.UnsetAgentModel(t.Context(), contract.AgentBuilder, &none, "ben")
	require.True(t, fault.Is(err, contract.CodeRejected))
	unset, err := c.UnsetAgentModel(t.Context(), contract.AgentBuilder, &set.Choice.Version, "ben")
	require.NoError(t, err)
	require.Nil(t, unset.Choice)
	require.Equal(t, "models.default", unset.Source)
	changes, err := c.ModelChanges(t.Context(), contract.AgentBuilder, 10)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Equal(t, "ben", changes[0].By)
	require.Nil(t, changes[0].To)

	for path, status := range map[string]int{"tester": http.StatusUnprocessableEntity, "nobody": http.StatusUnprocessableEntity, "builder": http.StatusOK} {
		answer := b.send(t, http.MethodPut, "/api/models/agents/"+path, `{"model":"openai/gpt-5"}`)
		require.Equal(t, status, answer.Code, answer.Body)
		if status != http.StatusOK {
			require.Equal(t, "application/problem+json", answer.Header().Get("Content-Type"))
		}
	}
	require.Equal(t, http.StatusUnprocessableEntity, b.send(t, http.MethodPut, "/api/models/agents/builder", `{"model":"openai/gpt-5","effort":"much"}`).Code)
}

func TestAChoiceUnderAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const path, body = "/api/models/agents/builder", `{"model":"openai/gpt-5","version":0}`
	first := b.send(t, http.MethodPut, path, body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusOK, first.Code, first.Body)
	again := b.send(t, http.MethodPut, path, body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusOK, again.Code, "the same request, whose response was lost")
	require.Equal(t, first.Body.String(), again.Body.String())
	require.Equal(t, http.StatusConflict, b.send(t, http.MethodPut, path, body, "Idempotency-Key", "other").Code)
}

func TestTheModelsPageShowsWhoChoseWhat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Models.Default = config.Choice{Provider: "openai", Model: "gpt-5"}
	hostile := `<script>alert(1)</script>`
	for agent, body := range map[string]string{
		"builder": `{"model":"openai/` + hostile + `","by":"` + hostile + `"}`, "planner": `{"model":"anthropic/claude-sonnet-4-5","by":"ana"}`,
	} {
		require.Equal(t, http.StatusOK, b.send(t, http.MethodPut, "/api/models/agents/"+agent, body).Code)
	}
	raw := b.get(t, "/settings/models").Body.String()
	require.NotContains(t, raw, hostile)
	doc, text := b.page(t, "/settings/models")
	require.Contains(t, text, "settings page, by ana at ")
	require.Contains(t, text, "not in the catalogue", "the model of the builder")
	selected := map[string]string{}
	for n := range doc.Descendants() {
		if n.Data != "input" || attribute(n, "name") != "model" || attribute(n, "type") != "hidden" {
			continue
		}
		for form := n.Parent; form != nil; form = form.Parent {
			if agent, ok := strings.CutPrefix(attribute(form, "id"), "choice-"); ok {
				selected[agent] = attribute(n, "value")
			}
		}
	}
	require.Equal(t, "openai/"+hostile, selected["builder"], "a model that is not listed stays")
	require.Equal(t, "anthropic/claude-sonnet-4-5", selected["planner"])
	require.Equal(t, "openai/gpt-5", selected["repair"])

	delete(b.config.Models.Providers, "anthropic")
	_, text = b.page(t, "/settings/models")
	require.Contains(t, text, "New runs fail until another model is chosen")
	require.Contains(t, text, "openai/gpt-5", "the other agents have theirs")
}

// catalogueRows returns the ids of the models in the catalogue's part of a page, and the text of the
// page.
func (b *fixture) catalogueRows(t *testing.T, query string) (ids []string, text string) {
	t.Helper()
	doc, text := b.page(t, "/settings/models"+query)
	for _, id := range attributes(doc, "id") {
		if name, ok := strings.CutPrefix(id, "model-"); ok && name != "changes" {
			ids = append(ids, name)
		}
	}
	return ids, text
}

func TestTheCatalogueIsSearchedAndShownInParts(t *testing.T) {
	b := setup(t)
	b.config.Models.Providers = map[string]config.Provider{"house": {Kind: "compatible", BaseURL: "http://127.0.0.1:1/v1"}, "openai": {Kind: "openai"}}
	b.config.Models.Default = config.Choice{Provider: "house", Model: "m-000"}
	for i := range 120 {
		b.config.Models.Catalogue = append(b.config.Models.Catalogue, config.CatalogueEntry{
			Provider: "house", Model: fmt.Sprintf("m-%03d", i), Capabilities: []string{"tools"}, Released: fmt.Sprintf("2026-%02d-01", 1+i/10),
		})
	}
	b.config.Models.Catalogue = append(b.config.Models.Catalogue, config.CatalogueEntry{Provider: "openai", Model: "own", Capabilities: []string{"tools"}})
	last := &b.config.Models.Catalogue[119]
	last.Deprecated = "2027-01-01"
	b.config.Models.Catalogue[118].Deprecated = "2026-01-01"
	t.Setenv("OPENAI_API_KEY", "")

	ids, text := b.catalogueRows(t, "")
	require.Len(t, ids, 50)
	require.Equal(t, "house-m-110", ids[0], "the newest first")
	require.Contains(t, text, "120 of ")
	require.NotContains(t, strings.Join(ids, " "), "openai", "it has no key")
	require.Less(t, b.get(t, "/settings/models").Body.Len(), 150<<10)
	rest, _ := b.catalogueRows(t, "?from=100")
	require.Len(t, rest, 20)
	require.Equal(t, []string{"house-m-119", "house-m-118"}, rest[18:], "those that end come last")

	ids, _ = b.catalogueRows(t, "?text=HOUSE+11")
	require.Len(t, ids, 11, "m-011 and m-110 to m-119")
	ids, _ = b.catalogueRows(t, "?provider=openai&text=gpt-5")
	require.NotEmpty(t, ids)
	for _, id := range ids {
		require.Contains(t, id, "openai-")
	}
	ids, text = b.catalogueRows(t, "?text=claude")
	require.Empty(t, ids)
	require.Contains(t, text, "Search every provider")
	ids, _ = b.catalogueRows(t, "?text=claude&provider=all")
	require.NotEmpty(t, ids)
	require.Equal(t, http.StatusBadRequest, b.ask(t, http.MethodGet, "/settings/models?from=-1").Code)
	require.Equal(t, http.StatusOK, b.ask(t, http.MethodGet, "/settings/models?from=9999").Code)

	offered := func() (names []string) {
		doc, _ := b.page(t, "/settings/models")
		for n := range doc.Descendants() {
			if n.Data == "option" && attribute(n.Parent, "id") == "models" {
				names = append(names, attribute(n, "value"))
			}
		}
		return names
	}
	names := offered()
	require.Len(t, names, 119)
	require.NotContains(t, names, "house/m-118", "it is no longer offered")
	require.Equal(t, "house/m-119", names[118], "and this one not for long")
	t.Setenv("OPENAI_API_KEY", "k")
	require.Contains(t, offered(), "openai/own")
}

func TestScoresAreShownWithTheirSourceAndDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Models.Default = config.Choice{Provider: "house", Model: "m"}
	b.config.Models.Providers = map[string]config.Provider{"house": {Kind: "compatible", BaseURL: "http://127.0.0.1:1/v1"}}
	b.config.Models.Catalogue = []config.CatalogueEntry{{Provider: "house", Model: "m"}}
	_, text := b.catalogueRows(t, "")
	require.NotContains(t, text, "Scores", "no model has any")
	b.config.Models.Catalogue[0].Scores = []config.Score{
		{Name: "coding", Value: 0.764, Source: "LiveBench: m", Date: "2026-11-01"}, {Name: "reasoning", Value: 0.9, Source: `<i>own</i>`, Date: "2026-10-01"},
	}
	_, text = b.catalogueRows(t, "")
	for _, want := range []string{"Scores", "coding 0.76", "LiveBench: m, 2026-11-01", "reasoning 0.90", "<i>own</i>, 2026-10-01"} {
		require.Contains(t, text, want)
	}
}
