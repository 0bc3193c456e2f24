package contract

import "slices"

// HealAction is an action that self-heal can take on a failure. The names are stored with every
// heal and never change.
type HealAction string

// The heal actions. A table in package fault defines the actions for each failure and their order.
const (
	// HealCorrectJSON shows the model its response and the errors in its JSON, and asks for the
	// same response, corrected.
	HealCorrectJSON HealAction = "correct_json"
	// HealRegenerate asks for a new response, with constraints that rule out the failure.
	HealRegenerate HealAction = "regenerate"
	// HealCompactContext asks again with half the context: the planner is shown less of the
	// repository; a step continues from the same point with its conversation summarized.
	HealCompactContext HealAction = "compact_context"
	// HealStricterSchema asks again with schemas that state every limit and that the
	// provider enforces; a step's change must build before it counts.
	HealStricterSchema HealAction = "stricter_schema"
	// HealLowerTemperature asks again at temperature 0.
	HealLowerTemperature HealAction = "lower_temperature"
	// HealMoreReasoning and HealLessReasoning ask again with the next amount of reasoning: more from a
	// model that takes no temperature, less if reasoning used up the response.
	HealMoreReasoning HealAction = "more_reasoning"
	HealLessReasoning HealAction = "less_reasoning"
	// HealSaferModel asks another model, one that is known to be reliable.
	HealSaferModel HealAction = "safer_model"
	// HealWait waits on a durable timer until a limit's window ends.
	HealWait HealAction = "wait"
	// HealOtherWorker repeats the work on a worker that has not failed at it.
	HealOtherWorker HealAction = "other_worker"
	// HealOtherProvider moves the work to another model provider.
	HealOtherProvider HealAction = "other_provider"
	// HealRepair lets the Repair agent patch the code according to the output.
	HealRepair HealAction = "repair"
	// HealRerunStrict repeats the same work with stricter validation of its input and output.
	HealRerunStrict HealAction = "rerun_strict"
	// HealRefinePlan has the planner correct its plan according to the critique.
	HealRefinePlan HealAction = "refine_plan"
	// HealRefineStep has one step repeated with the critique.
	HealRefineStep HealAction = "refine_step"
	// HealCreateDefaults writes documented defaults for missing configuration.
	HealCreateDefaults HealAction = "create_defaults"
	// HealPolicyCorrection shows the agent which policy it broke and has the change made
	// again within the policy. It never weakens a policy.
	HealPolicyCorrection HealAction = "policy_correction"
	// HealAskPerson opens a manual intervention: the run waits for a person.
	HealAskPerson HealAction = "ask_person"
)

// HealActions returns all heal actions, cheapest first.
func HealActions() []HealAction {
	return []HealAction{
		HealCorrectJSON, HealRegenerate, HealCompactContext, HealStricterSchema, HealLowerTemperature, HealMoreReasoning, HealLessReasoning, HealSaferModel,
		HealWait, HealOtherWorker, HealOtherProvider, HealRerunStrict, HealRepair, HealRefineStep, HealRefinePlan,
		HealCreateDefaults, HealPolicyCorrection, HealAskPerson,
	}
}

// Valid reports whether a is one of the heal actions.
func (a HealAction) Valid() bool { return slices.Contains(HealActions(), a) }
