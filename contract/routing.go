package contract

// RouteStrategy determines which model makes a call, if several can.
type RouteStrategy string

// Strategies of routing.
const (
	RouteFixed    RouteStrategy = "fixed"    // the agent's model; others only while it is out
	RouteCheapest RouteStrategy = "cheapest" // the lowest expected cost
	RouteBest     RouteStrategy = "best"     // the highest score for the agent's work
	RouteBalanced RouteStrategy = "balanced" // score against cost, by weights
)

// RouteWeights weigh a model's score against its cost. Only their ratio counts.
type RouteWeights struct {
	Quality float64 `json:"quality"`
	Price   float64 `json:"price"`
}

// Routing determines which of its models a run uses for a call.
type Routing struct {
	// Strategies are those of the agents; an agent without one has RouteFixed.
	Strategies map[Agent]RouteStrategy `json:"strategies,omitempty"`
	// Candidates are the models to choose from. An agent's own model is always one of them.
	Candidates []ModelChoice `json:"candidates,omitempty"`
	Weights    RouteWeights  `json:"weights,omitzero"`
	// Learn counts how models did in earlier runs of the project.
	Learn bool `json:"learn,omitempty"`
}

// Strategy returns the strategy for an agent.
func (r *Routing) Strategy(agent Agent) RouteStrategy {
	if r == nil || r.Strategies[agent] == "" {
		return RouteFixed
	}
	return r.Strategies[agent]
}

// RouteDecision is the record of why a call used its model.
type RouteDecision struct {
	Strategy RouteStrategy `json:"strategy"`
	// Reasons are sentences for people, the most important first.
	Reasons []string `json:"reasons"`
	// Considered are the models that the strategy compared, the best first; nil if it had no choice.
	Considered []RouteCandidate `json:"considered,omitempty"`
	// PassedOver are the candidates that could not make the call.
	PassedOver []PassedOver `json:"passed_over,omitempty"`
	// ExpectedMicroUSD is the cost that the decision expected, in millionths of a US dollar; 0 if the
	// model is fixed.
	ExpectedMicroUSD int64 `json:"expected_micro_usd,omitempty"`
	// Assumed is set if the expected cost is based on an unknown price.
	Assumed bool `json:"assumed,omitempty"`
}

// RouteCandidate is a model that could make a call, with what the decision knew about it.
type RouteCandidate struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// ExpectedMicroUSD is the expected cost of the call with this model, in millionths of a US dollar;
	// Assumed is set if its price is unknown.
	ExpectedMicroUSD int64 `json:"expected_micro_usd"`
	Assumed          bool  `json:"assumed,omitempty"`
	// Quality is how well the model is expected to do, from 0 to 1, and Basis is what that is based on.
	Quality float64 `json:"quality"`
	Basis   string  `json:"basis"`
	// Value is what the strategy balanced compares; 0 for the others.
	Value float64 `json:"value,omitempty"`
}

// PassedOver is a model that could not make a call, and why.
type PassedOver struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Why      string `json:"why"`
}
