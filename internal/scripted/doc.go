// Package scripted is a model server that answers from a scenario file. It
// speaks the OpenAI chat-completions protocol (tools, JSON schema, streaming)
// and embeddings, so that demonstrations, tests and offline use reach it exactly
// like any provider.
//
// A scenario is YAML (or JSON):
//
//	rules:                     # from top to bottom; the first that matches and is not used up answers
//	  - when:                  # every key is optional; all that are given must match
//	      agent: planner       # planner, builder, tester, releaser, analyzer, repair, environment, alpha, beta or gamma
//	      phase: planner_running   # or planner
//	      step: step-001       # "" matches requests that belong to no step
//	      attempt: 1           # execution of that phase or step, from 1
//	      turn: 1              # model call within the execution, from 1
//	      contains: dark mode  # in any message text of the request
//	      model: some-model    # exactly
//	    times: 1               # how often the rule may answer; default: always
//	    latency: 200ms         # before it answers
//	    reply:                 # one of json, text, tool_calls; text may go with tool_calls
//	      json: {summary: done}
//	      text: plain text
//	      tool_calls:
//	        - name: edit_file
//	          arguments: {path: a.go, old_text: x, new_text: y}   # or a string, sent as it is
//	    usage: {prompt_tokens: 1200, completion_tokens: 300}      # default: estimated, four characters a token
//	  - when: {agent: builder, attempt: 1}
//	    fault: {status: 429, retry_after: 1s}
//
// A fault is one of:
//
//	{status: 429, code: insufficient_quota}
//	                    that status, with a code other than its usual one
//	{status: 500}       that HTTP status (400 to 599), with retry_after if given
//	{timeout: true}     no answer at all; ends when the client gives up
//	{truncate: true}    the answer is cut in the middle, with finish_reason "length"
//	{malformed: true}   HTTP 200 with a body that is not JSON
//	{disconnect: true}  the connection breaks in the middle of the answer
//
// A truncated, malformed or disconnected answer is made from the rule's reply if
// it has one. Tokens are counted only for answers and truncated answers: for the
// other faults the client never learns the cost.
//
// Requests are attributed by the headers X-RGPT-Run, -Agent, -Phase, -Step,
// -Attempt and -Turn. A request that no rule answers gets HTTP 400. A request
// that repeats an Idempotency-Key gets the reply of the same rule again without
// using up the rule again, unless that was a fault.
package scripted
