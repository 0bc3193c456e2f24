package github

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// The mutations that the REST API does not have.
const (
	markReady = `mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`
	markDraft = `mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`
)

// setDraft makes a pull request a draft, or ready for review.
func (c *call) setDraft(id string, draft bool) error {
	if draft {
		return c.graphQL(markDraft, id)
	}
	return c.graphQL(markReady, id)
}

// graphQLError is an error in a response with status 200.
type graphQLError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// graphQL runs a mutation of an object.
func (c *call) graphQL(mutation, id string) error {
	body, err := json.Marshal(map[string]any{"query": mutation, "variables": map[string]string{"id": id}})
	if err != nil {
		return err
	}
	address := c.http.API()
	address.Path = strings.TrimSuffix(address.Path, "v3/") + "graphql"
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.HTTP().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Errors []graphQLError `json:"errors"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if len(answer.Errors) == 0 {
		return nil
	}
	return answer.Errors[0].failure(resp.Header)
}

// failure returns the failure for an error.
func (e graphQLError) failure(header http.Header) error {
	switch e.Type {
	case "RATE_LIMITED":
		return &forgehttp.StatusError{Status: http.StatusTooManyRequests, Header: header, Message: e.Message}
	case "NOT_FOUND":
		return fault.New(contract.ClassConfig, contract.CodeRepository, "%s", e.Message)
	case "FORBIDDEN", "INSUFFICIENT_SCOPES":
		return fault.New(contract.ClassConfig, contract.CodeUnauthorized, "%s; the credentials need the permissions pull_requests=write and contents=write", e.Message)
	}
	return fault.New(contract.ClassConfig, contract.CodeBadRequest, "%s", e.Message)
}
