package server_test

import (
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
		if n.Data != "option" || !has(n, "selected") {
			continue
		}
		for form := n.Parent; form != nil; form = form.Parent {
			if agent, ok := strings.CutPrefix(attribute(form, "id"), "choice-"); ok {
				selected[agent] = attribute(n, "value")
			}
		}
	}
	require.Equal(t, "openai/"+hostile, selected["builder"], "a model that is not listed stays selected")
	require.Equal(t, "anthropic/claude-sonnet-4-5", selected["planner"])
	require.Equal(t, "openai/gpt-5", selected["repair"])

	delete(b.config.Models.Providers, "anthropic")
	_, text = b.page(t, "/settings/models")
	require.Contains(t, text, "New runs fail until another model is chosen")
	require.Contains(t, text, "openai/gpt-5", "the other agents have theirs")
}
