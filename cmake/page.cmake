# clq_embed_page(TARGET): the files that `clique report` puts into its page. Chart.js, which draws the plots, comes from
# the distribution's package. Without it everything else builds, and the command reports what is missing.
find_file(CLIQUE_CHART_JS NAMES chart.umd.min.js chart.umd.js chart.min.js
          PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist NO_DEFAULT_PATH
          DOC "Chart.js 3 or 4, the file for browsers (Debian: libjs-chart.js; npm: chart.js/dist/chart.umd.js)")
set(CLQ_CHART_JS "")
if(CLIQUE_CHART_JS)
  file(READ ${CLIQUE_CHART_JS} chart_text)
  string(REGEX MATCH "Chart\\.js v([0-9]+)\\.[0-9.]+" chart_name "${chart_text}")
  if(NOT CMAKE_MATCH_1 GREATER_EQUAL 3)
    message(WARNING "${CLIQUE_CHART_JS} is not Chart.js 3 or later: clique report will have no plots to draw with")
  elseif(chart_text MATCHES "</script|<!--")
    message(WARNING "${CLIQUE_CHART_JS} cannot stand inside a page: clique report will have no plots to draw with")
  else()
    message(STATUS "Found ${chart_name}: ${CLIQUE_CHART_JS}")
    set(CLQ_CHART_JS ${CLIQUE_CHART_JS})
  endif()
  unset(chart_text)
else()
  message(STATUS "Chart.js is missing (Debian: libjs-chart.js; elsewhere -DCLIQUE_CHART_JS=FILE): clique report will say so")
endif()

set(CLQ_PAGE_FILES ${PROJECT_SOURCE_DIR}/src/cli/page/style.css ${PROJECT_SOURCE_DIR}/src/cli/page/plots.js)
clq_embed(${CMAKE_BINARY_DIR}/generated/page_parts.c cli/page.h clq_page_file clq_page_files ${CLQ_PAGE_FILES} ${CLQ_CHART_JS})
