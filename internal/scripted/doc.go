// Package scripted is a model server that responds according to a scenario file. It implements the
// OpenAI chat-completions protocol (tools, JSON schema, streaming) and embeddings, Anthropic's
// Messages and Google's Gemini, so demonstrations, tests and offline installations use it exactly
// like any provider.
//
// A scenario is YAML (or JSON):
//
//	rules:                     # from top to bottom; the first one that matches and is not used up applies
//	  - when:                  # every key is optional; all given keys must match
//	      agent: planner       # planner, builder, tester, releaser, analyzer, repair, environment, judge, reviewer, alpha, beta or gamma
//	      phase: planner_running   # or planner
//	      step: step-001       # "" matches requests outside any step
//	      attempt: 1           # execution of that phase or step, from 1
//	      turn: 1              # model call within the execution, from 1
//	      contains: dark mode  # in any message text of the request
//	      model: some-model    # exactly
//	    times: 1               # how often the rule can be used; default: always
//	    latency: 200ms         # before the response
//	    pace: 100ms            # between the pieces of a streamed response
//	    reply:                 # one of json, text, tool_calls; text may go with tool_calls
//	      json: {summary: done}
//	      text: plain text
//	      tool_calls:
//	        - name: edit_file
//	          arguments: {path: a.go, old_text: x, new_text: y}   # or a string, sent unchanged
//	    usage: {prompt_tokens: 1200, completion_tokens: 300}      # default: estimated, four characters per token
//	  - when: {agent: builder, attempt: 1}
//	    fault: {status: 429, retry_after: 1s}
//
// A fault is one of:
//
//	{status: 429, code: insufficient_quota}
//	                    that status, with a code other than its usual one
//	{status: 500}       that HTTP status (400 to 599), with retry_after if given
//	{timeout: true}     no response at all; ends when the client gives up
//	{truncate: true}    the response is cut in the middle, with finish_reason "length"
//	{malformed: true}   HTTP 200 with a body that is not JSON
//	{disconnect: true}  the connection breaks in the middle of the response
//
// A truncated, malformed or disconnected response is based on the rule's reply if it has one.
// Tokens are counted only for complete and truncated responses: after other faults, the client does
// not receive the usage.
//
// Requests are attributed by the headers X-RGPT-Run, -Agent, -Phase, -Step, -Attempt and -Turn. A
// request that no rule matches gets HTTP 400. A request that repeats an Idempotency-Key gets the
// reply of the same rule again without counting as another use, unless the reply was a fault.
package scripted
