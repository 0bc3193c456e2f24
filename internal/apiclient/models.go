package apiclient

import (
	"context"
	"net/http"
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
)

// AgentModels returns the models that new runs and pipelines use.
func (c *Client) AgentModels(ctx context.Context) ([]control.AgentModel, error) {
	list, err := ask[apitypes.AgentModelList](ctx, c, read("api", "models", "agents"))
	return list.Agents, err
}

// SetAgentModel chooses the model of an agent for new runs and pipelines.
func (c *Client) SetAgentModel(ctx context.Context, agent contract.Agent, n control.NewModelChoice) (control.AgentModel, error) {
	order := command(n, "api", "models", "agents", string(agent))
	order.method = http.MethodPut
	return ask[control.AgentModel](ctx, c, order)
}

// UnsetAgentModel removes the choice for an agent. seen is the version that the caller saw; nil: not
// compared.
func (c *Client) UnsetAgentModel(ctx context.Context, agent contract.Agent, seen *int64, by string) (control.AgentModel, error) {
	order := command(nil, "api", "models", "agents", string(agent))
	order.method = http.MethodDelete
	version := ""
	if seen != nil {
		version = strconv.FormatInt(*seen, 10)
	}
	order.query = parameters("version", version, "by", by)
	return ask[control.AgentModel](ctx, c, order)
}

// ModelChanges returns the last changes of the choice for an agent, or of all if agent is empty.
func (c *Client) ModelChanges(ctx context.Context, agent contract.Agent, limit int) ([]modelchoices.Change, error) {
	r := read("api", "models", "changes")
	r.query = parameters("agent", string(agent), "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.ModelChangeList](ctx, c, r)
	return list.Changes, err
}
