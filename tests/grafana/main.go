// Reads a dashboard from stdin by the types of Grafana's foundation SDK, which Grafana generates from its schemas.
//
// The decoding is strict: an unknown field, a missing one that the schema requires, a value of another type and a value
// outside of an enumeration are problems. So are a panel or a query of a kind that the SDK has no types for, because
// it would take any field of those. One problem a line on stdout; exit code 1 where there are any.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	types := cog.NewRuntime() // of what the dashboard has; those of all panels take a minute and a half to compile
	types.RegisterPanelcfgVariant(stat.VariantConfig())
	types.RegisterPanelcfgVariant(timeseries.VariantConfig())
	types.RegisterDataqueryVariant(prometheus.VariantConfig())
	problems := problemsOf(raw)
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func problemsOf(raw []byte) (problems []string) {
	// This version of the SDK returns an error without text where nothing is wrong, and then drops the parts that it was
	// about. So the strict decoding finds fields, and an ordinary one has the page whose values and kinds are judged.
	if err := dashboard.NewDashboard().UnmarshalJSONStrict(raw); err != nil && err.Error() != "" {
		return []string{err.Error()}
	}
	page := dashboard.NewDashboard()
	if err := json.Unmarshal(raw, page); err != nil {
		return []string{err.Error()}
	}
	if err := page.Validate(); err != nil {
		return []string{err.Error()}
	}
	for _, item := range page.Panels {
		if item.Panel != nil {
			problems = append(problems, unknown(item.Panel)...)
		}
	}
	return problems
}

// unknown names the kinds of a panel and its queries that were decoded without types.
func unknown(panel *dashboard.Panel) (problems []string) {
	if _, known := cog.ConfigForPanelcfgVariant(panel.Type); !known {
		problems = append(problems, fmt.Sprintf("panel %d: type %q has no schema", *panel.Id, panel.Type))
	}
	for at, target := range panel.Targets {
		if _, untyped := target.(variants.UnknownDataquery); untyped {
			problems = append(problems, fmt.Sprintf("panel %d: targets[%d]: its data source has no schema", *panel.Id, at))
		}
	}
	return problems
}
