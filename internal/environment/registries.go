package environment

import (
	_ "embed"

	"go.yaml.in/yaml/v3"
)

//go:embed registries.yaml
var registriesFile []byte

// registries are the hosts of each ecosystem.
var registries = func() map[string][]string {
	hosts := map[string][]string{}
	// The file is part of the program; a test reads it.
	_ = yaml.Unmarshal(registriesFile, &hosts)
	return hosts
}()
