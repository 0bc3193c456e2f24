package config

// EnvKey is the key that a variable's name without RGPT_ stands for.
var EnvKey = envKey

// Values returns settings as a tree, without their origins.
var Values = treeOf

// Trust is what a repository may do with each key, by key.
func Trust() map[string]string {
	out := map[string]string{}
	for _, k := range Schema() {
		out[k.Key] = k.Repository
	}
	return out
}

// LoadText is Load for a project file with only this content.
func LoadText(content string) (*Config, error) {
	l := newLoader(Default())
	l.yaml([]byte(content), FileName)
	return l.finish()
}
