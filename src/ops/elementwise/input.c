/* Converts samples from their stored type (u8) to the first layer's input. */
#include "ops/ops.h"

void clq_input_u8(clq_list *list, size_t elements, float factor, clq_value x, clq_value y) {
    clq_element_program p = {.output_count = 1, .outputs = {{.dtype = clq_list_storage(list, y)}}};
    unsigned byte = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_U8});
    clq_instruction scale = {.op = CLQ_ELEMENT_SCALE, .a = byte, .number = (double)factor};
    p.outputs[0].from = clq_element_do(&p, scale);
    const clq_element_values values = {.elements = elements, .channels = 1, .inputs = {x}, .outputs = {y}};
    clq_elementwise(list, "input", &p, &values);
}
