/* clique/version.h: the release. CMake reads it here. */
#ifndef CLIQUE_VERSION_H
#define CLIQUE_VERSION_H

/* Grows if programs have to be changed. */
#define CLQ_VERSION_MAJOR 0
/* Grows with what is added. */
#define CLQ_VERSION_MINOR 1
/* Grows with what is mended. */
#define CLQ_VERSION_PATCH 0

/* As one number, which grows from release to release: 1.2.3 is 10203. */
#define CLQ_VERSION (CLQ_VERSION_MAJOR * 10000 + CLQ_VERSION_MINOR * 100 + CLQ_VERSION_PATCH)

#endif
