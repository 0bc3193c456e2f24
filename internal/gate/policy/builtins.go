package policy

import (
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// functions are the built-in functions that policies may call: those that compute their result from
// their arguments alone. Others do not compile, also those that a newer OPA adds. Calls of print are
// removed, except in tests.
const functions = `
	abs all and any array.concat array.flatten array.reverse array.slice assign base64.decode
	base64.encode base64.is_valid base64url.decode base64url.encode base64url.encode_no_pad bits.and
	bits.lsh bits.negate bits.or bits.rsh bits.xor ceil concat contains count crypto.md5 crypto.sha1
	crypto.sha256 div endswith eq equal floor format_int glob.match glob.quote_meta graph.reachable
	graph.reachable_paths gt gte hex.decode hex.encode indexof indexof_n internal.member_2
	internal.member_3 internal.print internal.template_string internal.test_case intersection is_array
	is_boolean is_null is_number is_object is_set is_string json.filter json.is_valid json.marshal
	json.patch json.remove json.unmarshal lower lt lte max min minus mul neq numbers.range
	numbers.range_step object.filter object.get object.keys object.remove object.subset object.union
	object.union_n or plus print product regex.find_all_string_submatch_n regex.find_n
	regex.globs_match regex.is_valid regex.match regex.replace regex.split regex.template_match rem
	replace round semver.compare semver.is_valid sort split sprintf startswith
	strings.any_prefix_match strings.any_suffix_match strings.count strings.replace_n strings.reverse
	strings.split_n substring sum time.add_date time.clock time.date time.diff time.format
	time.parse_duration_ns time.parse_ns time.parse_rfc3339_ns time.weekday to_number trim trim_left
	trim_prefix trim_right trim_space trim_suffix type_name union units.parse units.parse_bytes upper
	uri.is_valid uri.parse urlquery.decode urlquery.encode walk yaml.is_valid yaml.marshal
	yaml.unmarshal`

// capabilities are those of policies.
var capabilities = sync.OnceValue(func() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(ast.RegoV1))
	allowed := strings.Fields(functions)
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return !slices.Contains(allowed, b.Name) })
	c.AllowNet = []string{}
	return c
})
