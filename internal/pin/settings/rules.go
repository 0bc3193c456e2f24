package settings

import "regexp"

// Rules are those of tools that belong to no single language.
var Rules = []Rule{
	{regexp.MustCompile(`(^|/)(GNUm|[Mm])akefile$|\.mk$`), makeTargets},
	{regexp.MustCompile(`^rgpt(\.local)?\.yaml$`), rgptSettings},
	{regexp.MustCompile(`(^|/)(\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.ya?ml|\.circleci/config\.yml|azure-pipelines\.yml|\.travis\.yml|Jenkinsfile|Taskfile\.ya?ml|[Jj]ustfile)$`), workflow},
	{regexp.MustCompile(`(^|/)(Cargo\.toml|\.config/nextest\.toml|pom\.xml|build\.gradle(\.kts)?|\.mocharc\.ya?ml)$`), buildFile},
}
