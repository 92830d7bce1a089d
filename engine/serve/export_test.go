package serve

// MetricNames are the families that WriteMetrics writes, name to type.
func MetricNames() map[string]string {
	out := map[string]string{}
	for _, f := range families {
		out[f.name] = f.kind
	}
	return out
}
